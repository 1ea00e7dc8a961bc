/* SPDX-License-Identifier: Apache-2.0 */
/* plan_image.c: what compiled kernels take of a multiprocessor, for `plan --kernels
 * --image FILE`. In: an image that make of a trainer writes (build/sm_90a.cubin, an ELF
 * file), and the trainer's kernels.c, just emitted. Out: g->image: for each kernel the
 * registers of a thread, the shared memory of a block, and the stack of a thread, where
 * registers go that do not fit. Or a message: no image, or one of other kernels.
 *
 * NVIDIA's tools are not needed to read it. Only a few records are: the section .nv.info
 * lists (kernel, registers) and (kernel, stack), and the section .nv.shared.KERNEL is as
 * large as its static shared memory. What a launch adds to that stands in kernels.c. */
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_IMAGE_BYTES = 256 << 20, MAX_NAME = 255, MAX_SHARED_BYTES = 1 << 30 };
enum { MAX_KERNELS = 4096 };       /* a trainer has tens */
enum { NVIDIA = 190, NOBITS = 8 }; /* e_machine; a section without bytes in the file */
/* Records of .nv.info: of this format, payload (symbol, number). */
enum { FORMAT_SIZED = 4, STACK_BYTES = 0x11, REGISTERS = 0x2f };
/* From sm_90 on, the driver's part of a block's shared memory is in the sizes. */
enum { RESERVED_BYTES = 1024 };

typedef struct Image {
    Gen *g;
    const char *at;
    uint64_t bytes;
    bool cut; /* it refers to bytes outside the file, or says what cannot be */
    uint64_t sections, count, names;
} Image;

typedef struct Section {
    uint64_t name, kind, at, bytes, link;
} Section;

/* A little-endian number; 0 with `cut` set: not in the file. */
static uint64_t number(Image *m, uint64_t at, int width)
{
    uint64_t v = 0;

    if (at > m->bytes || m->bytes - at < (uint64_t)width) {
        m->cut = true;
        return 0;
    }
    for (int i = width - 1; i >= 0; i--)
        v = v << 8 | (unsigned char)m->at[at + (uint64_t)i];
    return v;
}

static Section section(Image *m, uint64_t i)
{
    const uint64_t at = m->sections + 64 * i;
    Section s = {0};

    if (i >= m->count) {
        m->cut = true;
        return s;
    }
    s = (Section){number(m, at, 4), number(m, at + 4, 4), number(m, at + 24, 8),
                  number(m, at + 32, 8), number(m, at + 40, 4)};
    if (s.kind != NOBITS && (s.at > m->bytes || m->bytes - s.at < s.bytes)) {
        m->cut = true;
        return (Section){0};
    }
    return s;
}

/* The name at `offset` of section i, a list of names; "" with `cut` set: it has none. */
static const char *name_at(Image *m, uint64_t i, uint64_t offset)
{
    const Section s = section(m, i);
    size_t n;

    if (offset >= s.bytes || s.kind == NOBITS) {
        m->cut = true;
        return "";
    }
    n = strnlen(m->at + s.at + offset,
                (size_t)min_i64((int64_t)(s.bytes - offset), MAX_NAME));
    return gen_strndup(m->g, m->at + s.at + offset, n);
}

static const char *symbol_name(Image *m, uint64_t table, uint64_t symbol)
{
    const Section s = section(m, table);

    if (symbol >= s.bytes / 24) {
        m->cut = true;
        return "";
    }
    return name_at(m, s.link, number(m, s.at + 24 * symbol, 4));
}

/* ---- kernels --------------------------------------------------------------------- */

static ImageKernel *kernel_named(KernelImage *image, const char *name)
{
    for (int i = 0; i < image->count; i++)
        if (!strcmp(image->items[i].name, name))
            return &image->items[i];
    return NULL;
}

/* C and C++ names only: they are printed as they are. */
static bool is_symbol(const char *name)
{
    static const char in_names[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                   "0123456789_$.";

    return *name && !name[strspn(name, in_names)];
}

/* The records (kernel, number) of one kind: registers add kernels, then stacks follow. */
static void read_records(Image *m, const Section *s, uint64_t kind, KernelImage *image)
{
    const uint64_t end = s->at + s->bytes;

    for (uint64_t at = s->at; at < end && !m->cut;) {
        const uint64_t format = number(m, at, 1), is = number(m, at + 1, 1);
        const uint64_t payload = format == FORMAT_SIZED ? number(m, at + 2, 2) : 0;

        if (format == FORMAT_SIZED && is == kind && payload >= 8) {
            const char *name = symbol_name(m, s->link, number(m, at + 4, 4));
            ImageKernel *k = kernel_named(image, name);

            m->cut |= !is_symbol(name) || image->count > MAX_KERNELS;
            if (!k && kind == REGISTERS && !m->cut) {
                k = gen_push(m->g, image);
                *k = (ImageKernel){.name = name};
            }
            if (k)
                *(kind == REGISTERS ? &k->registers : &k->stack_bytes) =
                    (int64_t)number(m, at + 8, 4);
        }
        at += 4 + payload;
    }
}

static void read_shared(Image *m, KernelImage *image)
{
    static const char prefix[] = ".nv.shared.";
    bool reserved = false;

    for (uint64_t i = 0; i < m->count && !m->cut; i++)
        reserved |=
            !strcmp(name_at(m, m->names, section(m, i).name), ".nv.shared.reserved.0");
    for (uint64_t i = 0; i < m->count && !m->cut; i++) {
        const Section s = section(m, i);
        const char *name = name_at(m, m->names, s.name);
        ImageKernel *k = strncmp(name, prefix, sizeof prefix - 1)
                             ? NULL
                             : kernel_named(image, name + sizeof prefix - 1);

        m->cut |= k && s.bytes > MAX_SHARED_BYTES;
        if (k && !m->cut)
            k->shared_bytes =
                max_i64((int64_t)s.bytes - (reserved ? RESERVED_BYTES : 0), 0);
    }
}

/* Are `bytes` from `at` on in the file? Else `cut` is set. */
static void must_hold(Image *m, uint64_t at, uint64_t bytes)
{
    m->cut |= at > m->bytes || m->bytes - at < bytes;
}

/* Reads the head. Both tables are whole then, the last things in the file. */
static bool open_image(Image *m)
{
    if (m->bytes < 64 || memcmp(m->at, "\177ELF\2\1", 6) || number(m, 18, 2) != NVIDIA)
        return false;
    m->sections = number(m, 40, 8);
    m->count = number(m, 60, 2);
    m->names = number(m, 62, 2);
    must_hold(m, m->sections, 64 * m->count);
    must_hold(m, number(m, 32, 8), 56 * number(m, 56, 2));
    return number(m, 58, 2) == 64;
}

static void read_kernels(Image *m, KernelImage *image)
{
    for (uint64_t i = 0; i < m->count && !m->cut; i++) {
        const Section s = section(m, i);

        if (strcmp(name_at(m, m->names, s.name), ".nv.info") != 0)
            continue;
        read_records(m, &s, REGISTERS, image);
        read_records(m, &s, STACK_BYTES, image);
        break; /* there is one */
    }
    read_shared(m, image);
}

/* ---- launches -------------------------------------------------------------------- */

/* The number after `key` in the table of that kernel in kernels.c; 0: it has none. */
static int64_t launch_number(const char *table, const char *key)
{
    const char *end = strstr(table, "\n};"), *at = strstr(table, key);

    return at && end && at < end ? (int64_t)strtoll(at + strlen(key), NULL, 10) : 0;
}

static void read_launches(Gen *g, const char *launches, KernelImage *image)
{
    for (int i = 0; i < image->count; i++) {
        ImageKernel *k = &image->items[i];
        const char *table =
            strstr(launches, gen_printf(g, "\n    .name = \"%s\",\n", k->name));

        k->threads = table ? launch_number(table, ".threads = ") : 0;
        k->shared_bytes += table ? launch_number(table, ".shared_bytes = ") : 0;
    }
}

/* Was it compiled from this kernels.c? Its kernel math_0123...ef names the text. */
static bool is_ours(Gen *g, const char *launches, KernelImage *image)
{
    static const char identity[] = "#if MATH_IDENTITY != 0x";
    const char *at = strstr(launches, identity);

    gen_require(at, "kernels.c has no identity");
    return kernel_named(image, gen_printf(g, "math_%.16s", at + sizeof identity - 1)) !=
           NULL;
}

/* What is wrong with the file; NULL: nothing. */
static const char *read_image(Image *m, const char *launches, KernelImage *image)
{
    Gen *g = m->g;
    size_t bytes = 0;
    const int e = file_read(g->opt.image, MAX_IMAGE_BYTES, &m->at, &bytes);

    m->bytes = bytes;
    if (e)
        return gen_printf(g, "cannot be read: %s", file_problem(e));
    if (!open_image(m))
        return "is not an image of compiled kernels";
    read_kernels(m, image);
    if (m->cut)
        return "is cut short, or not an image of compiled kernels";
    if (!image->count)
        return "does not say how many registers its kernels take";
    if (!is_ours(g, launches, image))
        return "holds the kernels of another description or generator";
    return NULL;
}

void plan_image_read(Gen *g, const char *launches)
{
    Image m = {.g = g};
    KernelImage *image = gen_alloc(g, sizeof *image);
    const char *wrong = read_image(&m, launches, image);

    free((char *)m.at);
    if (wrong) {
        diag_add(g, DIAG_ERROR, (Pos){.file = g->opt.image},
                 "make -C DIR of this description's trainer writes it: "
                 "DIR/build/sm_90a.cubin, for example",
                 "%s", wrong);
        return;
    }
    read_launches(g, launches, image);
    g->image = image;
}

/* ---- of one kernel of the plan --------------------------------------------------- */

/* Is `name` the kernel `of` of an op, or that with "_" and more? */
static bool belongs(const char *name, const char *of)
{
    const size_t n = strlen(of);

    return !strncmp(name, of, n) && (name[n] == '\0' || name[n] == '_');
}

bool image_kernel_is_of(const ImageKernel *k, const char *kernel, const char *call)
{
    static const struct {
        const char *call, *kernel;
    } of_runtime[] = {{"merge", "rt_merge_kernel"}, {"norm", "rt_squares_kernel"}};

    if (kernel)
        return belongs(k->name, kernel);
    for (size_t i = 0; i < sizeof of_runtime / sizeof *of_runtime; i++)
        if (!strcmp(call, of_runtime[i].call))
            return !strcmp(k->name, of_runtime[i].kernel);
    return !strcmp(call, "update") && strlen(k->name) > 7 &&
           !strcmp(k->name + strlen(k->name) - 7, "_update");
}
