"""Slow, obvious twins of the fast code: loops and definitions, nothing clever.

Nothing here imports a kernel, so that no mistake can be shared.
"""

from itertools import (
    combinations,
    combinations_with_replacement,
    pairwise,
    permutations,
    product,
)
from math import fsum, prod

import numpy as np
from scipy.optimize import brentq, nnls
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm


def argsort_stable(z):
    """Return the order that sorts z, ties in row order, by Python's own stable sort."""
    return np.array(sorted(range(len(z)), key=lambda i: z[i]), dtype=int)


def step_gap(z, y):
    """Return the largest distance of two empirical distribution functions, point by point."""
    return max(abs(np.mean(z <= point) - np.mean(y <= point)) for point in [*z, *y])


def sorted_loss(kind, z, y, extent=0):
    """Return a loss of two samples from its definition, sorting both first."""
    z, y = np.sort(z), np.sort(y)
    if kind == "squared":
        return sum((a - b) ** 2 for a, b in zip(z, y, strict=True)) / len(z)
    if kind == "absolute":
        return sum(abs(a - b) for a, b in zip(z, y, strict=True)) / len(z)
    if kind == "small-d":
        m = min(extent, len(z))
        return sum((z[k] - y[k]) ** 2 for k in range(m)) / m
    if kind == "kolmogorov-smirnov":
        return step_gap(z, y)
    raise KeyError(kind)


def screened_squares(z, y, n_cells=256):
    """Return the squares of two samples where labels meet the mean of the cell of their rank."""
    low, reach = z.min(), np.ptp(z)
    cells = np.zeros(len(z), int)
    if reach > 0:
        cells = np.floor((z - low) / reach * n_cells * (1 - 1e-12)).astype(int)
    means = {k: np.mean(z[cells == k]) for k in set(cells)}
    met = [means[k] for k in sorted(cells)]
    return (np.sum(z**2) - 2 * np.dot(met, np.sort(y)) + np.sum(y**2)) / len(z)


def spread_over_atoms(z, atoms):
    """Return every prediction plus every noise atom."""
    return np.array([value + atom for value in z for atom in atoms])


def split_bags(bags):
    """Return the rows and labels of each bag of a canonical `Bags`."""
    ends = zip(bags.offsets[:-1], bags.offsets[1:], strict=True)
    return [(bags.X[start:stop], bags.y[start:stop]) for start, stop in ends]


def sorted_problem_value(kind, bags, w, atoms=(0.0,), extent=0):
    """Return the loss over all bags, each counting by its size."""
    total = 0.0
    for X, y in split_bags(bags):
        spread = spread_over_atoms(X @ w, atoms)
        labels = spread_over_atoms(y, np.zeros(len(atoms)))
        total += len(y) / bags.n * sorted_loss(kind, spread, labels, extent * len(atoms))
    return total


def moment_problem_value(bags, w, factors, atoms=(0.0,)):
    """Return Σ over bags of Σₖ f(k)(E[(Xw + e)ᵏ] − mean yᵏ)², e being one of the atoms."""
    total = 0.0
    for X, y in split_bags(bags):
        spread = spread_over_atoms(X @ w, atoms)
        for k, factor in enumerate(factors, start=1):
            total += factor * (np.mean(spread**k) - np.mean(y**k)) ** 2
    return total


def monomial_means(X, degree):
    """Return the mean of each monomial up to a degree, keyed by the sorted tuple of columns."""
    return {
        key: np.mean([prod(row[j] for j in key) for row in X])
        for k in range(degree + 1)
        for key in combinations_with_replacement(range(X.shape[1]), k)
    }


def least_over_permutations(z, y):
    """Return the least mean squared gap over every matching of labels to predictions."""
    return min(np.mean((z - np.array(order)) ** 2) for order in permutations(y))


def best_matching_fit(parts):
    """Return the least mean squared residual over every matching and all weights.

    `parts` lists (X, y) bag by bag; every matching gets its own least-squares fit.
    """
    X = np.concatenate([rows for rows, _ in parts])
    best = np.inf
    for orders in product(*(permutations(y) for _, y in parts)):
        y = np.concatenate([np.array(order) for order in orders])
        weights = np.linalg.lstsq(X, y, rcond=None)[0]
        best = min(best, np.mean((y - X @ weights) ** 2))
    return best


def climb_by_sorting(direction, U, parts_of_labels, n_steps):
    """Return the point UᵀPy and the squared residual after steps of sorting and least squares."""
    point = np.asarray(direction, dtype=float)
    for _ in range(n_steps):
        z, start, dealt = U @ point, 0, np.empty(len(U))
        for labels in parts_of_labels:
            rows = start + argsort_stable(z[start : start + len(labels)])
            dealt[rows] = np.sort(labels)
            start += len(labels)
        point = U.T @ dealt
    return point, np.sum((dealt - U @ point) ** 2)


def bound_over_cone(corners, heights, total):
    """Return total − max(aᵀh)² over unit directions Σ aᵢcᵢ, a ≥ 0, by non-negative least squares.

    g·c is h at every corner, and the largest g·c over unit vectors of a cone is the length of g's
    projection onto it.
    """
    g = np.linalg.solve(corners, heights)
    parts, _ = nnls(corners.T, g)
    return total - np.sum((corners.T @ parts) ** 2)


def mixture_quantile(centres, sds, shares, probability):
    """Return a quantile of a mixture of normals by root finding on its distribution function."""

    def excess(place):
        return sum(shares * norm.cdf((place - centres) / sds)) - probability

    reach = 10 * max(sds)
    return brentq(excess, min(centres) - reach, max(centres) + reach, xtol=1e-14, rtol=1e-14)


def central_differences(function, w, step):
    """Return the gradient of a scalar function by central differences."""
    gradient = np.empty(len(w))
    for j in range(len(w)):
        up, down = w.copy(), w.copy()
        up[j] += step
        down[j] -= step
        gradient[j] = (function(up) - function(down)) / (up[j] - down[j])
    return gradient


def minimise_lasso(gram, target, l1, n_steps=20_000):
    """Minimise wᵀGw − 2tᵀw + Σ l1|w| by soft-thresholded gradient steps, slowly and surely."""
    step = 0.5 / np.linalg.eigvalsh(gram).max()
    w = np.zeros(len(target))
    for _ in range(n_steps):
        w = w - step * 2 * (gram @ w - target)
        w = np.sign(w) * np.maximum(np.abs(w) - step * l1, 0.0)
    return w


def gaussian_moment(k, sd):
    """Return E[eᵏ] of Gaussian noise by a fine Riemann sum of its density."""
    grid = np.linspace(-12, 12, 200_001)
    density = np.exp(-(grid**2) / 2)
    return float(np.sum((sd * grid) ** k * density) / np.sum(density))


def log_permanent(log_matrix):
    """Return the log of a permanent from the logs of its entries, over every permutation."""
    n = len(log_matrix)
    terms = log_matrix[np.arange(n), np.array(list(permutations(range(n))))].sum(axis=1)
    largest = terms.max()
    return largest + np.log(np.exp(terms - largest).sum())


def enumerate_posterior(target, log_likelihood):
    """Return mean and sd of one weight under the exact posterior, by a grid over (w, log sigma)."""
    weights = np.linspace(-3.0, 3.0, 121)
    levels = np.linspace(-6.5, 1.4, 50)
    table = np.array(
        [
            [
                log_likelihood(target, np.array([w]), level) + target.prior(np.array([w]), level)[0]
                for level in levels
            ]
            for w in weights
        ]
    )
    mass = np.exp(table - table.max()).sum(axis=1)
    mass /= mass.sum()
    mean = mass @ weights
    return mean, np.sqrt(mass @ (weights - mean) ** 2)


def couple_densely(z, y, variance, n_passes=5000):
    """Return Sinkhorn's coupling B of two samples and the value −Σ log aᵢ − Σ log bⱼ of its dual.

    All in logarithms, on the whole matrix, with far more passes than are needed.
    """
    log_kernel = -((y[None, :] - z[:, None]) ** 2) / (2 * variance)
    log_a, log_b = np.zeros(len(z)), np.zeros(len(y))
    for _ in range(n_passes):
        rows = log_kernel + log_b
        log_a = -(rows.max(axis=1) + np.log(np.exp(rows - rows.max(axis=1)[:, None]).sum(axis=1)))
        columns = log_kernel + log_a[:, None]
        log_b = -(columns.max(axis=0) + np.log(np.exp(columns - columns.max(axis=0)).sum(axis=0)))
    return np.exp(log_a[:, None] + log_kernel + log_b), -log_a.sum() - log_b.sum()


def least_mean_distance(x, shares):
    """Return the mean distance of weighted points to the best of many points, by brute force.

    Candidates are the points themselves and a fine grid of their pairwise mixtures.
    """
    ends = [a + t * (b - a) for a in x for b in x for t in np.linspace(0, 1, 21)]
    return min(float(shares @ np.sqrt(((x - end) ** 2).sum(axis=1))) for end in ends)


def share_prior(covariance, weight_scale, share_low, share_high, w, log_sigma):
    """Return the log prior of many weights (m, p) at one noise level, from its definition.

    N(0, scale²) for the weights, Beta(share_low, share_high) for the noise's share of the total
    variance and a uniform direction; a thousandth of the total keeps the signal above zero.
    """
    noise = np.exp(2 * log_sigma)
    signal = np.einsum("mi,ij,mj->m", w, covariance, w)
    total = signal + noise
    value = -(w**2).sum(axis=1) / (2 * weight_scale**2)
    value += (share_high - w.shape[1] / 2) * np.log(signal + 1e-3 * total)
    return value + 2 * share_low * log_sigma - (share_low + share_high) * np.log(total)


def enumerate_model(
    X, y, offsets, dof, log_sigmas, scales=(1.0, 0.5, 1.0), n_nodes=60, beside=None, cost=0.0
):
    """Return the exact posterior of the shuffled model by every matching, in standard units.

    Given a matching and the noise, exp(−|y − Xw|²/2σ²) is Gaussian in w; with a wide Gaussian prior
    for reference, Gauss and Hermite's rule integrates the rest. The answer is mean and sd of the
    weights, log evidence and the probability of each match, rows × labels, label l being y[l].
    Matchings are equally likely a priori, or lose `cost` nats for every label l that another row
    than `beside[l]` holds.
    """
    n, p = X.shape
    places = [permutations(range(start, stop)) for start, stop in pairwise(offsets)]
    orders = [sum(parts, ()) for parts in product(*places)]
    prior_of_orders = np.zeros(len(orders))
    if beside is not None:
        moved = [sum(beside[label] != row for row, label in enumerate(order)) for order in orders]
        prior_of_orders = -cost * np.array(moved)
    prior_of_orders = prior_of_orders - np.log(np.exp(prior_of_orders).sum())
    points, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    nodes = np.array(list(product(points, repeat=p)))
    node_weights = np.log([prod(part) for part in product(weights, repeat=p)])
    step = log_sigmas[1] - log_sigmas[0] if len(log_sigmas) > 1 else 1.0
    covariance, labels, terms = X.T @ X / n, y[np.array(orders)], []
    for log_sigma in log_sigmas:
        variance = np.exp(2 * log_sigma)
        precision = X.T @ X / variance + np.eye(p) / scales[0] ** 2
        root = np.linalg.inv(np.linalg.cholesky(precision)).T
        centres = np.linalg.solve(precision, X.T @ labels.T / variance).T
        w = centres[:, None] + nodes @ root.T
        value = -((labels[:, None] - w @ X.T) ** 2).sum(axis=2) / (2 * variance)
        prior = share_prior(covariance, *scales, w.reshape(-1, p), log_sigma)
        value += prior.reshape(value.shape) + node_weights + 0.5 * (nodes**2).sum(axis=1)
        value += np.linalg.slogdet(root)[1] + np.log(step) - dof * log_sigma
        value += prior_of_orders[:, None]
        mass = np.exp(value - value.max())
        first, second = (np.einsum("om,omp->p", mass, w**k) for k in (1, 2))
        terms.append((value.max(), mass.sum(axis=1), first, second))
    highest = max(term[0] for term in terms)
    scale = [np.exp(term[0] - highest) for term in terms]
    shares, first, second = (
        sum(s * term[k] for s, term in zip(scale, terms, strict=True)) for k in (1, 2, 3)
    )
    total = shares.sum()
    mean = first / total
    table = np.zeros((n, n))
    for order, share in zip(orders, shares, strict=True):
        table[np.arange(n), list(order)] += share / total
    return mean, np.sqrt(second / total - mean**2), np.log(total) + highest, table


def swap_pass(
    rows, labels, offsets, holder, gains, spans, order_of_steps, uniforms, beside=None, cost=0.0
):
    """Return the holders after one pass of swaps, each accepted by the whole density.

    Where labels stood beside rows, half of the proposals are anywhere in the bag.
    """
    holder = list(holder)

    def density():
        slope = sum(label * rows[row] for label, row in zip(labels, holder, strict=True))
        moved = 0 if beside is None else sum(a != b for a, b in zip(holder, beside, strict=True))
        return 0.5 * sum(gains * slope**2) - cost * moved

    for start, stop, span in zip(offsets[:-1], offsets[1:], spans, strict=True):
        for at in order_of_steps(start, stop):
            far, width = uniforms[at, 0], span
            if beside is not None:
                far, width = (2 * far, stop - start - 1) if far < 0.5 else (2 * far - 1, span)
            other = min(at + 1 + int(far * width), stop - 1)
            before = density()
            holder[at], holder[other] = holder[other], holder[at]
            if uniforms[at, 1] >= np.exp(min(density() - before, 0.0)):
                holder[at], holder[other] = holder[other], holder[at]
    return holder


def multiply_plainly(left, right):
    """Return a matrix product, entry by entry with exact sums."""
    rows, columns = np.asarray(left).tolist(), np.asarray(right).T.tolist()

    def entry(row, column):
        return fsum(a * b for a, b in zip(row, column, strict=True))

    return np.array([[entry(row, column) for column in columns] for row in rows])


def quantile_loss(kind, z, z_masses, y, y_masses):
    """Return the loss between two quantile functions, level by level of their common refinement."""
    samples, levels = [], [0.0, 1.0]
    for values, masses in ((z, z_masses), (y, y_masses)):
        order = argsort_stable(values)
        reached = np.cumsum(np.asarray(masses, dtype=float)[order]) / np.sum(masses)
        samples.append((np.asarray(values)[order], reached))
        levels += reached[:-1].tolist()
    total = 0.0
    for low, high in pairwise(sorted(levels)):
        a, b = (values[np.sum(reached < 0.5 * (low + high))] for values, reached in samples)
        total += (high - low) * (abs(a - b) if kind == "absolute" else (a - b) ** 2)
    return total


def log_gaussian_bin(low, high, sigma):
    """Return the log of a Gaussian's probability of a bin over its width (1 where it is open).

    Taken in the tail that is the smaller, as a difference of logs of probabilities.
    """
    a, b = (low / sigma, high / sigma) if low + high <= 0 else (-high / sigma, -low / sigma)
    largest, rest = log_ndtr(b), log_ndtr(a)
    value = largest if rest == -np.inf else largest + np.log(-np.expm1(rest - largest))
    return value - (np.log(high - low) if np.isfinite(high - low) else 0.0)


def log_mean_over_injections(log_kernel):
    """Return the log of the mean, over all ways to give labels rows of their own, of the product.

    Entry (i, j) of the matrix is the log density of label j at row i.
    """
    n_rows, n_labels = log_kernel.shape
    chosen = np.array(list(permutations(range(n_rows), n_labels)))
    terms = log_kernel[chosen, np.arange(n_labels)].sum(axis=1)
    return terms.max() + np.log(np.exp(terms - terms.max()).mean())


def log_mixture(log_kernel, row_masses, label_masses):
    """Return the log likelihood of independent draws from the mixture of all rows."""
    shares = row_masses / row_masses.sum()
    densities = [sum(shares * np.exp(column)) for column in log_kernel.T]
    return sum(
        mass * np.log(density) for mass, density in zip(label_masses, densities, strict=True)
    )


def histogram_nodes(start, size, n_tail, tail):
    """Return the nodes of a histogram with even cells and tails that widen, in cells."""
    beyond = tail * np.expm1(np.arange(1, n_tail + 1) / tail)
    return np.concatenate(
        [start - beyond[::-1], start + np.arange(size + 1), start + size + beyond]
    )


def bend(columns, w, degrees, coefs):
    """Return z + Σ c zᵏ of columns (p, n)."""
    z = np.asarray(w) @ columns
    return z + sum(coef * z**degree for coef, degree in zip(coefs, degrees, strict=True))


def fill_histogram(z, x, curve, nodes):
    """Return per cell the number of values z + c z², their summed places, and slopes' sums."""
    value = z + curve * z**2
    cell = np.clip(np.searchsorted(nodes, value, side="right") - 1, 0, len(nodes) - 2)
    place = np.clip((value - nodes[cell]) / (nodes[cell + 1] - nodes[cell]), 0.0, 1.0)
    out = np.zeros((len(nodes) - 1, 3 + x.shape[1]))
    for i, k in enumerate(cell):
        slopes = x[i] * (1.0 + 2.0 * curve * z[i])
        out[k] += np.concatenate([[1.0, place[i]], slopes, [z[i] ** 2]])
    return out


def log_det_between(rows, bag, counts, ridge):
    """Return log det(ridge I + Σ total totalᵀ / count) from its definition."""
    matrix = ridge * np.eye(rows.shape[1])
    for r in sorted(set(bag.tolist())):
        total = sum(rows[i] for i in range(len(bag)) if bag[i] == r)
        size = sum(counts[i] for i in range(len(bag)) if bag[i] == r)
        matrix = matrix + np.outer(total, total) / size
    return np.log(np.linalg.det(matrix))


def exchange_plainly(rows, counts, bag, low, high, ridge, partners):
    """Go once over the units, each taking the best exchange by the whole value."""
    bag = bag.copy()
    gained = 0.0
    for i in range(len(bag)):
        now, best = log_det_between(rows, bag, counts, ridge), None
        for j in partners[i]:
            there = bag[j] if j >= 0 else -1 - j
            if there == bag[i]:
                continue
            trial = bag.copy()
            trial[i] = there
            if j >= 0:
                trial[j] = bag[i]
            filled = np.bincount(trial, weights=counts, minlength=len(low))
            if (filled < low).any() or (filled > high).any():
                continue
            gain = log_det_between(rows, trial, counts, ridge) - now
            if gain > 1e-10 and (best is None or gain > best[0]):
                best = gain, trial
        if best is not None:
            gained += best[0]
            bag = best[1]
    return bag, gained


def list_partitions(places, sizes):
    """Yield every way to share out places among bags of these sizes, as lists of places."""
    if not sizes:
        yield []
        return
    for chosen in combinations(places, sizes[0]):
        rest = [place for place in places if place not in chosen]
        for others in list_partitions(rest, sizes[1:]):
            yield [chosen, *others]


def best_partition(rows, sizes, ridge):
    """Return the largest log det over every way to fill bags of these sizes."""
    best, bag, ones = -np.inf, np.empty(len(rows), dtype=int), np.ones(len(rows))
    for members in list_partitions(range(len(rows)), list(sizes)):
        for r, places in enumerate(members):
            bag[list(places)] = r
        best = max(best, log_det_between(rows, bag, ones, ridge))
    return best


def sorted_place(gap, n_cells):
    """The place of a prediction among cells: even up to 4 sds, then by 8 − 16/gap."""
    if abs(gap) > 4.0:
        gap = np.sign(gap) * (8.0 - 16.0 / abs(gap))
    return (gap + 8.0) / 16.0 * n_cells


def sorted_cells(X, codes, centre, factor, weights, levels, means, inverse, n_cells):
    """Rows in the cells of their predictions: (columns, place inside the cell) of each."""
    found = [
        [[[] for _ in range(n_cells)] for _ in range(means.shape[1])] for _ in range(len(weights))
    ]
    for s in range(len(weights)):
        for x, r in zip((X - centre) * factor, codes, strict=True):
            gap = (levels[s] + x @ weights[s] - means[s, r]) * inverse[s, r]
            place = sorted_place(gap, n_cells)
            cell = int(np.clip(np.floor(place), 0, n_cells - 1))
            found[s][r][cell].append((x, place - cell))
    return found


def curve_sorted_cells(cells, degree):
    """Mean rows of cells, smoothed over the cells' centres by a weighted polynomial, squared."""
    total = 0.0
    for own in cells:
        filled = [k for k, cell in enumerate(own) if cell]
        if not filled:
            continue
        counts = np.array([len(own[k]) for k in filled])
        rows = np.array([np.mean([[1.0, *x] for x, _ in own[k]], axis=0) for k in filled])
        centres = (2.0 * np.array(filled) + 1.0) / len(own) - 1.0
        powers = np.polynomial.legendre.legvander(centres, min(degree, len(filled) - 1))
        root = np.sqrt(counts)[:, None]
        smooth = powers @ np.linalg.lstsq(powers * root, rows * root, rcond=None)[0]
        total = total + smooth.T @ (smooth * counts[:, None])
    return total


def match_sorted_cells(cells, weights, level, middles, inverse, labels, is_squared):
    """Cells against the labels of their ranks, as many as they have rows.

    Inside a cell rows and labels go together as well as their sds allow; how columns change with
    the prediction there is told by the cells beside.
    """
    value, slopes = 0.0, np.zeros(1 + len(weights))
    for own, y, middle, scale in zip(cells, labels, middles, inverse, strict=True):
        at, filled = 0, []
        for cell in own:
            if not cell:
                continue
            part = y[at : at + len(cell)]
            at += len(cell)
            rows = np.array([x for x, _ in cell])
            z = level + rows.mean(axis=0) @ weights
            widening = max(abs(z - middle) * scale / 4.0, 1.0) ** 2
            sd = np.std([place for _, place in cell]) * 16.0 / len(own) * widening / scale
            inside = len(cell) * sd * part.std()
            filled.append((rows.mean(axis=0), z, inside))
            slope = part.mean() if is_squared else np.sign(z * len(cell) - part.sum())
            value += z * part.sum() + inside if is_squared else abs(z * len(cell) - part.sum())
            slopes += slope * np.array([len(cell), *rows.sum(axis=0)])
        for q in range(len(filled) if is_squared else 0):
            before, after = filled[max(q - 1, 0)], filled[min(q + 1, len(filled) - 1)]
            if after[1] > before[1]:
                change = (after[0] - before[0]) / (after[1] - before[1])
                slopes[1:] += filled[q][2] * change
    return value, slopes


def place_in_distribution(ends, z, sigma):
    """Return the mean over predictions of the normal distribution's share below every end."""
    return np.array([np.mean(ndtr((end - z) / sigma)) for end in ends])


def score_in_distribution(y, z, sigma, unit):
    """Return every label's scores in the mixture: shift, slope, noise, and noise that grows."""
    scores = []
    for label in y:
        gap, place = (label - z) / sigma, z / unit
        owner = np.exp(-0.5 * gap**2 + 0.5 * (gap**2).min())
        owner /= owner.sum()
        rest = gap**2 - 1.0
        scores.append([owner @ gap, owner @ (gap * place), owner @ rest, owner @ (rest * place)])
    return np.array(scores)


def filled_cells(cells):
    """Return the places of cells that hold anything but zeros."""
    return np.array([k for k, cell in enumerate(cells) if any(value != 0 for value in cell)], int)
