// Histograms of predictions on a graphics card: the whole numbers of kernels/filling.py, to the bit.
//
// Compiled for D columns and without fused multiplication, so that every double is what it is on
// the processor; TAIL, INNER and LINES come from there. What is added up are whole numbers, so that
// the order in which threads come does not matter.
//
// A block of threads takes some rows of one bag, and a few points. It adds to cells around the mean
// of the bag's predictions in shared memory, of which it has 32 bits a word: sums are two words,
// the upper of which takes the carry. Rows in other cells go to the card's memory at once.

typedef long long whole;
typedef unsigned long long total;

// Rows of more columns are read again for every point, since they do not fit the registers.
#define KEPT 32
#if D <= KEPT
#define EVERY_COLUMN _Pragma("unroll")
#else
#define EVERY_COLUMN _Pragma("unroll 1")
#endif

// What a block knows of a point: see `fill_cells` in kernels/filling.py.
struct Point {
    double curve, per_cell, start, unit;
    whole base;
    int size, n_tail, low;
    double weights[D];
};

static __device__ __forceinline__ void add_word(unsigned *low, unsigned *high, total value) {
    unsigned lower = (unsigned)value, upper = (unsigned)(value >> 32);
    unsigned sum = atomicAdd(low, lower) + lower;
    upper += sum < lower;
    if (upper) atomicAdd(high, upper);
}

// Returns the cell beyond a window that holds a distance from its edge, and the share of it passed.
// nodes[k] is how far the k-th node lies beyond the edge.
static __device__ int find_tail(double distance, int n_tail, const double *nodes, double *share) {
    double guess = TAIL * log1p(distance / TAIL);
    int k = guess < (double)(n_tail - 1) ? (int)guess : n_tail - 1;
    while (k > 0 && nodes[k] > distance) --k;
    while (k < n_tail - 1 && nodes[k + 1] <= distance) ++k;
    double passed = (distance - nodes[k]) / (nodes[k + 1] - nodes[k]);
    *share = passed < 1.0 ? passed : 1.0;
    return k;
}

static __device__ __forceinline__ int find_cell(double place, int size, int n_tail,
                                                const double *nodes, double *share) {
    if (place >= 0.0 && place < (double)size) {
        int k = (int)place;
        *share = place - (double)k;
        return n_tail + k;
    }
    if (place < 0.0) {
        int k = find_tail(-place, n_tail, nodes, share);
        *share = 1.0 - *share;
        return n_tail - 1 - k;
    }
    return n_tail + size + find_tail(place - (double)size, n_tail, nodes, share);
}

// Block b takes tile b / n_groups (bag, first row, end) and the points of group b % n_groups:
// chosen[n_own * group ...]. Its `window` cells of a point begin at `lows`.
template <bool SUMS>
static __device__ __forceinline__ void fill(
    const double *columns, whole stride, const whole *tiles, const double *centre,
    const double *factor, whole n_bags, const whole *chosen, whole n_chosen, whole n_own,
    const double *weights, const double *curves, const double *per_cell, const double *starts,
    const whole *sizes, const whole *tails, const whole *bases, const double *units,
    const whole *lows, whole window, const double *nodes, total *cells) {
    const int width = SUMS ? D + 3 : 2;
    const int words = SUMS ? 2 * D + 5 : 3;
    extern __shared__ double shared[];
    Point *points = (Point *)shared;
    unsigned *bins = (unsigned *)(points + n_own);
    const int span = (int)window;

    whole n_groups = (n_chosen + n_own - 1) / n_own;
    const whole *tile = tiles + 3 * (blockIdx.x / n_groups);
    whole first_point = n_own * (blockIdx.x % n_groups);
    // A bag has cells at every point or at none: all threads of the block agree.
    if (sizes[chosen[first_point] * n_bags + tile[0]] == 0) return;
    int n_here = (int)(n_chosen - first_point < n_own ? n_chosen - first_point : n_own);
    for (int q = threadIdx.x; q < n_here; q += blockDim.x) {
        whole p = chosen[first_point + q], at = p * n_bags + tile[0];
        Point *point = points + q;
        point->curve = curves[p];
        point->per_cell = per_cell[p];
        point->start = starts[at];
        point->unit = SUMS ? units[p] : 0.0;
        point->size = (int)sizes[at];
        point->n_tail = (int)tails[at];
        point->low = (int)lows[at];
        point->base = bases[at];
        for (int j = 0; j < D; ++j) point->weights[j] = weights[p * D + j];
    }
    for (int k = threadIdx.x; k < n_here * words * span; k += blockDim.x) bins[k] = 0;
    __syncthreads();

    for (whole i = tile[1] + threadIdx.x; i < tile[2]; i += blockDim.x) {
#if D <= KEPT
        double x[D];
        EVERY_COLUMN
        for (int j = 0; j < D; ++j) x[j] = (columns[j * stride + i] - centre[j]) * factor[j];
#define COLUMN(j) x[j]
#else
#define COLUMN(j) ((columns[(j) * stride + i] - centre[j]) * factor[j])
#endif
        for (int q = 0; q < n_here; ++q) {
            const Point *point = points + q;
            double z = 0.0, share;
            EVERY_COLUMN
            for (int j = 0; j < D; ++j) z += point->weights[j] * COLUMN(j);
            double place = (z + point->curve * z * z) * point->per_cell - point->start;
            int k = find_cell(place, point->size, point->n_tail, nodes, &share);
            unsigned passed = 1u + (unsigned)(share * INNER);
            double slope = point->unit * (1.0 + 2.0 * point->curve * z);
            int local = k - point->low;
            if (local >= 0 && local < span) {
                unsigned *own = bins + q * words * span + local;
                atomicAdd(own, 1u);
                add_word(own + span, own + 2 * span, passed);
                if (SUMS) {
                    EVERY_COLUMN
                    for (int j = 0; j < D; ++j)
                        add_word(own + (3 + 2 * j) * span, own + (4 + 2 * j) * span,
                                 (total)__double2ll_rn(COLUMN(j) * slope));
                    add_word(own + (3 + 2 * D) * span, own + (4 + 2 * D) * span,
                             (total)__double2ll_rn(z * z * point->unit));
                }
            } else {
                total *out = cells + (point->base + k) * width;
                atomicAdd(out, (total)1);
                atomicAdd(out + 1, (total)passed);
                if (SUMS) {
                    EVERY_COLUMN
                    for (int j = 0; j < D; ++j)
                        atomicAdd(out + 2 + j, (total)__double2ll_rn(COLUMN(j) * slope));
                    atomicAdd(out + 2 + D, (total)__double2ll_rn(z * z * point->unit));
                }
            }
        }
#undef COLUMN
    }
    __syncthreads();

    for (int k = threadIdx.x; k < n_here * span; k += blockDim.x) {
        const Point *point = points + k / span;
        const unsigned *own = bins + (k / span) * words * span + k % span;
        if (!own[0]) continue;
        total *out = cells + (point->base + point->low + k % span) * width;
        atomicAdd(out, (total)own[0]);
        for (int j = 1; j < width; ++j) {
            total lower = own[(2 * j - 1) * span], upper = own[2 * j * span];
            atomicAdd(out + j, upper << 32 | lower);
        }
    }
}

#define ARGUMENTS                                                                                 \
    const double *columns, whole stride, const whole *tiles, const double *centre,                \
        const double *factor, whole n_bags, const whole *chosen, whole n_chosen, whole n_own,     \
        const double *weights, const double *curves, const double *per_cell,                      \
        const double *starts, const whole *sizes, const whole *tails, const whole *bases,         \
        const double *units, const whole *lows, whole window, const double *nodes, total *cells
#define PASSED                                                                                    \
    columns, stride, tiles, centre, factor, n_bags, chosen, n_chosen, n_own, weights, curves,     \
        per_cell, starts, sizes, tails, bases, units, lows, window, nodes, cells

extern "C" __global__ void __launch_bounds__(LINES) fill_counts(ARGUMENTS) { fill<false>(PASSED); }
extern "C" __global__ void __launch_bounds__(LINES) fill_sums(ARGUMENTS) { fill<true>(PASSED); }

// Writes rows (m, D) into columns (D, stride), row i to the place targets[i], and, where there are
// any, labels as well.
extern "C" __global__ void __launch_bounds__(LINES)
    place_rows(const double *rows, const double *values, whole has_labels, const whole *targets,
               whole m, whole stride, double *columns, double *labels) {
    for (whole i = (whole)blockIdx.x * blockDim.x + threadIdx.x; i < m;
         i += (whole)gridDim.x * blockDim.x) {
        for (int j = 0; j < D; ++j) columns[j * stride + targets[i]] = rows[i * D + j];
        if (has_labels) labels[targets[i]] = values[i];
    }
}
