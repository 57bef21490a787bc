// The first look at rows and labels on a graphics card: the whole numbers of kernels/scanning.py.
//
// Compiled behind filling.cu. Rows lie by columns, bag by bag; block b takes tile b: bag, first row
// and end.

// Doubles as whole numbers in the same order, so that the least and the largest are whole numbers.
static __device__ __forceinline__ total to_order(double value) {
    total bits = (total)__double_as_longlong(value + 0.0);
    return bits >> 63 ? ~bits : bits | 0x8000000000000000ull;
}

// Widens ends (2), least and largest, by the values first to end.
static __device__ void widen(const double *values, whole first, whole end, total *ends) {
    total low = ~(total)0, high = 0;
    for (whole i = first + threadIdx.x; i < end; i += blockDim.x) {
        total value = to_order(values[i]);
        low = value < low ? value : low;
        high = value > high ? value : high;
    }
    if (low <= high) {
        atomicMin(ends, low);
        atomicMax(ends + 1, high);
    }
}

extern "C" __global__ void __launch_bounds__(LINES)
    scan_ends(const double *columns, whole stride, const double *labels, const whole *tiles,
              total *column_ends, total *label_ends) {
    const whole *tile = tiles + 3 * (whole)blockIdx.x;
    for (int j = 0; j < D; ++j) widen(columns + j * stride, tile[1], tile[2], column_ends + 2 * j);
    widen(labels, tile[1], tile[2], label_ends + 2 * tile[0]);
}

// Lists the rows whose hash is at most `limit`: their number, and of the first `most` that come the
// places and hashes. See `hash_rows` for the mixing.
extern "C" __global__ void __launch_bounds__(LINES)
    scan_hashes(const double *columns, whole stride, const whole *tiles, whole seed, whole limit,
                whole most, total *number, whole *places, total *hashes) {
    const whole *tile = tiles + 3 * (whole)blockIdx.x;
    for (whole i = tile[1] + threadIdx.x; i < tile[2]; i += blockDim.x) {
        total mixed = (total)seed;
        for (int j = 0; j < D; ++j) {
            mixed ^= (total)__double_as_longlong(columns[j * stride + i] + 0.0);
            mixed += 0x9E3779B97F4A7C15ull;
            mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ull;
            mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBull;
            mixed ^= mixed >> 31;
        }
        if (mixed > (total)limit) continue;
        total at = atomicAdd(number, (total)1);
        if (at >= (total)most) continue;
        places[at] = i;
        hashes[at] = mixed;
    }
}

// Writes the rows at these places, one after another.
extern "C" __global__ void __launch_bounds__(LINES)
    pick_rows(const double *columns, whole stride, const whole *places, whole m, double *rows) {
    for (whole i = (whole)blockIdx.x * blockDim.x + threadIdx.x; i < m;
         i += (whole)gridDim.x * blockDim.x)
        for (int j = 0; j < D; ++j) rows[i * D + j] = columns[j * stride + places[i]] + 0.0;
}

// Adds moments of t = (x - base) factor, |t| <= 1, in multiples of 1/unit. A warp takes a term:
// (j, -1, -1) of `first`, (j, k, -1) of `second`, or (j, k, m) of `third`.
extern "C" __global__ void __launch_bounds__(LINES)
    scan_moments(const double *columns, whole stride, const whole *tiles, const double *base,
                 const double *factor, const double *unit, const whole *terms, whole n_terms,
                 total *first, total *second, total *third) {
    const whole *tile = tiles + 3 * (whole)blockIdx.x;
    const int lanes = blockDim.x < 32 ? (int)blockDim.x : 32;
    for (whole c = threadIdx.x / lanes; c < n_terms; c += blockDim.x / lanes) {
        whole j = terms[3 * c], k = terms[3 * c + 1], m = terms[3 * c + 2];
        total sum = 0;
        for (whole i = tile[1] + threadIdx.x % lanes; i < tile[2]; i += lanes) {
            double t = (columns[j * stride + i] - base[j]) * factor[j];
            if (k >= 0) t = t * ((columns[k * stride + i] - base[k]) * factor[k]);
            if (m >= 0) t = t * ((columns[m * stride + i] - base[m]) * factor[m]);
            sum += (total)__double2ll_rn(t * unit[0]);
        }
        total *out = m >= 0   ? third + (j * D + k) * D + m
                     : k >= 0 ? second + (tile[0] * D + j) * D + k
                              : first + tile[0] * D + j;
        atomicAdd(out, sum);
    }
}

// Adds ((y - units[0]) units[1])² in multiples of 1/units[2].
extern "C" __global__ void __launch_bounds__(LINES)
    scan_squares(const double *labels, const whole *tiles, const double *units, total *sum) {
    const whole *tile = tiles + 3 * (whole)blockIdx.x;
    total own = 0;
    for (whole i = tile[1] + threadIdx.x; i < tile[2]; i += blockDim.x) {
        double gap = (labels[i] + 0.0 - units[0]) * units[1];
        own += (total)__double2ll_rn(gap * gap * units[2]);
    }
    atomicAdd(sum, own);
}

// Adds labels to cells of their bag: see `add_to_cells`.
extern "C" __global__ void __launch_bounds__(LINES)
    scan_labels(const double *labels, const whole *tiles, const double *edges,
                const whole *offsets, const double *widths, const double *unit, total *counts,
                total *sums, total *lows, total *highs) {
    const whole *tile = tiles + 3 * (whole)blockIdx.x;
    if (offsets[tile[0]] == offsets[tile[0] + 1]) return;
    for (whole i = tile[1] + threadIdx.x; i < tile[2]; i += blockDim.x) {
        double y = labels[i] + 0.0;
        whole low = offsets[tile[0]], high = offsets[tile[0] + 1];
        while (high - low > 1) {
            whole middle = (low + high) / 2;
            if (edges[middle] <= y)
                low = middle;
            else
                high = middle;
        }
        atomicAdd(counts + low, (total)1);
        if (widths[low] > 0.0) {
            double passed = (y - edges[low]) / widths[low];
            atomicAdd(sums + low, (total)__double2ll_rn((passed < 1.0 ? passed : 1.0) * unit[0]));
        }
        // Most labels widen nothing, and reading is cheaper than changing.
        total value = to_order(y);
        if (value < lows[low]) atomicMin(lows + low, value);
        if (value > highs[low]) atomicMax(highs + low, value);
    }
}
