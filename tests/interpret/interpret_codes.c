/* SPDX-License-Identifier: Apache-2.0 */
/* interpret_codes: weights that are gathered in fp8. Comes in: a machine, an instruction.
 * Goes out: the largest elements, scales and codes; and the two forms of fp8 as numbers,
 * by frexp, where the runtime works on bits. */
#include "interpret_machine.h"

#include <math.h>
#include <string.h>

/* ---- numbers --------------------------------------------------------------------- */

/* Bits of the mantissa, the exponent of the smallest normal number, the largest one. */
typedef struct Form {
    int mantissa, least;
    double largest;
} Form;

static Form form_of(Dtype d)
{
    return d == DT_E4M3 ? (Form){3, -6, 448} : (Form){2, -14, 57344};
}

double interp_load_fp8(Dtype d, uint8_t x)
{
    const Form f = form_of(d);
    const int size = x & 127, exponent = size >> f.mantissa, places = 1 << f.mantissa;
    const int part = size & (places - 1);
    double v = ldexp(exponent ? places + part : part,
                     f.least - f.mantissa + (exponent ? exponent - 1 : 0));

    if (size == 127 || (d == DT_E5M2 && size > 124))
        v = NAN;
    else if (d == DT_E5M2 && size == 124)
        v = INFINITY;
    return x & 128 ? -v : v;
}

/* Nearest, even; what is larger than the largest becomes it. */
uint8_t interp_store_fp8(Dtype d, double v)
{
    const Form f = form_of(d);
    const double size = fmin(fabs(v), f.largest);
    int e, bits;

    if (isnan(v))
        return 127;
    frexp(size, &e);
    e = e < f.least + 1 ? f.least + 1 : e;
    bits = ((e - f.least - 1) << f.mantissa) +
           (int)nearbyint(ldexp(size, f.mantissa + 1 - e));
    return (uint8_t)(bits | (signbit(v) ? 128 : 0));
}

/* ---- what instructions do -------------------------------------------------------- */

/* Elements of a parameter in what the rank has of its segment's weights, between lo and
 * hi of the segment. */
typedef struct Here {
    int64_t at, elems;
} Here;

static Here elements_here(const Param *p, int64_t base, int64_t lo, int64_t hi)
{
    const int64_t from = max_i64(p->offset_elems, lo);
    const int64_t to = min_i64(p->offset_elems + p->held_elems, hi);

    return (Here){from - base, max_i64(0, to - from)};
}

void interp_largest(Machine *m, int rank, const Instr *i)
{
    const Segment *s = &m->g->segments.items[i->segment];
    const int64_t lo = mesh_part(s, rank) * s->shard_elems;
    const char *weights = interp_param_part(m, rank, s, i->from);
    int32_t *largest =
        (int32_t *)interp_at(m, rank, interp_find_buffer(m, BUF_LARGEST, -1));

    for (int k = 0; k < s->n_params; k++) {
        const Param *p = &m->g->params.items[s->params[k]];
        const Here here = elements_here(p, lo, lo, lo + s->shard_elems);

        largest[p->scale] = 0;
        for (int64_t n = 0; n < here.elems; n++) {
            const float size = (float)fabs(interp_load(s->dtype, weights, here.at + n));
            int32_t bits;

            memcpy(&bits, &size, sizeof bits);
            if (bits > largest[p->scale])
                largest[p->scale] = bits;
        }
    }
}

/* Of all ranks, staged one after the other. */
void interp_scales(Machine *m, int rank)
{
    const Buffer *largest = &m->p->bufs.items[interp_find_buffer(m, BUF_LARGEST, -1)];
    const Buffer *scales = &m->p->bufs.items[interp_find_buffer(m, BUF_SCALES, -1)];
    const char *staged = m->rank[rank].staged[STREAM_COMPUTE];
    const int64_t n = largest->bytes / 4;
    const Dtype d = scales->bytes == n * 8 ? DT_F64 : DT_F32;

    for (int64_t k = 0; k < n; k++) {
        double top = 0, scale = 0x1p-126;

        for (int q = 0; q < m->w; q++) {
            float part;
            memcpy(&part, staged + q * largest->bytes + k * 4, sizeof part);
            top = part > top || isnan(part) ? part : top;
        }
        while (top > 448 * scale)
            scale *= 2;
        interp_store(d, interp_at(m, rank, scales->id), k, isfinite(top) ? scale : NAN);
    }
}

void interp_encode(Machine *m, int rank, const Instr *i)
{
    const Segment *s = &m->g->segments.items[i->segment];
    const Buffer *scales = &m->p->bufs.items[interp_find_buffer(m, BUF_SCALES, -1)];
    const Buffer *largest = &m->p->bufs.items[interp_find_buffer(m, BUF_LARGEST, -1)];
    const Dtype d = scales->bytes == largest->bytes ? DT_F32 : DT_F64;
    const bool whole = s->param_elems == s->elems;
    const int64_t base = whole ? 0 : mesh_part(s, rank) * s->shard_elems;
    const char *weights = interp_at(m, rank, i->from);

    for (int k = 0; k < s->n_params; k++) {
        const Param *p = &m->g->params.items[s->params[k]];
        const double scale = interp_load(d, interp_at(m, rank, scales->id), p->scale);
        const Here here = elements_here(p, base, base, base + s->param_elems);

        for (int64_t n = here.at; n < here.at + here.elems; n++)
            interp_store(s->gathered, interp_at(m, rank, i->to), n,
                         (float)(interp_load(s->dtype, weights, n) / scale));
    }
}

/* ---- before the first step ------------------------------------------------------- */

/* As the end of a step does it, for all ranks. */
void interp_encode_all(Machine *m)
{
    const int largest = interp_find_buffer(m, BUF_LARGEST, -1);

    for (int pass = 0; largest >= 0 && pass < 3; pass++) {
        for (int rank = 0; rank < m->w; rank++) {
            const int64_t bytes = m->p->bufs.items[largest].bytes;

            for (int s = 0; s < m->g->segments.count; s++) {
                const Instr i = {.segment = s,
                                 .from = interp_find_buffer(m, BUF_PARAM_SHARD, s),
                                 .to = interp_find_buffer(m, BUF_CODES, s)};
                if (i.to >= 0 && pass == 0)
                    interp_largest(m, rank, &i);
                if (i.to >= 0 && pass == 2)
                    interp_encode(m, rank, &i);
            }
            for (int q = 0; pass == 1 && q < m->w; q++)
                memcpy(m->rank[rank].staged[STREAM_COMPUTE] + q * bytes,
                       interp_at(m, q, largest), (size_t)bytes);
            if (pass == 1)
                interp_scales(m, rank);
        }
    }
}
