/* SPDX-License-Identifier: Apache-2.0 */
/* sass.c: counts the instructions of compiled kernels, without NVIDIA's disassembler,
 * which is not part of every toolkit. In: an architecture, an image (ELF). Out: a line
 * for each kernel, sorted by name: its instructions, those of its main loop, and the
 * loop's products on tensor cores (HMMA), loads of their operands (LDSM), and loads from
 * global memory (LDG) of 16 bytes and of fewer.
 *
 * A loop is what lies between the target of a backward branch and the branch, inner loops
 * and code that is jumped over included. The main loop is the shortest with the most
 * HMMA; in a kernel without HMMA it is the longest loop. A kernel without a loop has 0
 * there, and all its LDG are counted. Where nvdisasm is installed, budgets.sh compares
 * these counts with its own.
 *
 *   sass sm_90a IMAGE */
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 16 bytes. Bits 0 to 11 are the opcode with the kinds of its operands, bits 12 to 15 the
 * predicate: 7 is always, 15 never. */
typedef struct {
    uint64_t low, high;
} Instruction;

enum { OPCODE = 0xfff, HMMA = 0x23c, LDSM = 0x83b, LDG = 0x981, NOP = 0x918 };
enum { BRANCH = 0x947, UNIFORM_BRANCH = 0x547 }; /* the second from sm_100 on */

typedef struct {
    const char *name;
    int all, loop, hmma, ldsm, wide, narrow;
} Row;

static int count(const Instruction *code, int from, int to, uint64_t opcode)
{
    int n = 0;

    for (int i = from; i < to; i++)
        n += (code[i].low & OPCODE) == opcode;
    return n;
}

/* Bits 73 to 75 of a load are its size: 6 for 16 bytes. */
static void count_loads(Row *r, const Instruction *code, int from, int to)
{
    r->wide = r->narrow = 0;
    for (int i = from; i < to; i++)
        if ((code[i].low & OPCODE) == LDG)
            *((code[i].high >> 9 & 7) == 6 ? &r->wide : &r->narrow) += 1;
}

/* Where a branch at place i goes, as a place. The distance is counted from the next
 * instruction: up to sm_89 in bytes, from bit 32 on; later in words, whose low 8 bits are
 * bits 16 to 23, the others from bit 34 on. */
static int64_t target(const Instruction *code, int i, int arch)
{
    const uint64_t upper = (code[i].low >> 34) | (code[i].high & 0x3ffff) << 30;
    const int64_t words = (int64_t)(upper << 16) >> 16; /* of 48 bits */

    if (arch < 90)
        return i + 1 + words / 4;
    return i + 1 + (words * 256 + (int64_t)(code[i].low >> 16 & 0xff)) / 4;
}

static Row row(const char *name, const Instruction *code, int n, int arch)
{
    Row r = {.name = name, .all = n};

    while (r.all > 0 && (code[r.all - 1].low & OPCODE) == NOP)
        r.all--; /* pads the end, after one branch to itself */
    count_loads(&r, code, 0, r.all);
    for (int i = 0; i < r.all; i++) {
        const uint64_t opcode = code[i].low & OPCODE;
        const int64_t to = target(code, i, arch);

        if ((opcode != BRANCH && (opcode != UNIFORM_BRANCH || arch < 100)) || to >= i ||
            to < 0)
            continue;
        const int length = i + 1 - (int)to, hmma = count(code, (int)to, i + 1, HMMA);
        const int shorter = hmma > 0 ? length < r.loop : length > r.loop;
        if (hmma < r.hmma || (hmma == r.hmma && r.loop > 0 && !shorter))
            continue;
        r.loop = length;
        r.hmma = hmma;
        r.ldsm = count(code, (int)to, i + 1, LDSM);
        count_loads(&r, code, (int)to, i + 1);
    }
    return r;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const Row *)a)->name, ((const Row *)b)->name);
}

static char *read_all(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    const long length = f && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
    char *data = length > 0 ? malloc((size_t)length) : NULL;

    if (!data || fseek(f, 0, SEEK_SET) != 0 ||
        fread(data, 1, (size_t)length, f) != (size_t)length)
        data = NULL;
    *bytes = (size_t)length;
    if (f)
        fclose(f);
    return data;
}

/* The sections of an image; NULL: it is not one. */
static const Elf64_Shdr *sections(const char *image, size_t bytes)
{
    const Elf64_Ehdr *head = (const void *)image;

    if (bytes < sizeof *head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_shoff % 8 != 0 || head->e_shstrndx >= head->e_shnum ||
        head->e_shoff > bytes ||
        (bytes - head->e_shoff) / sizeof(Elf64_Shdr) < head->e_shnum)
        return NULL;
    const Elf64_Shdr *of = (const void *)(image + head->e_shoff);
    for (int i = 0; i < head->e_shnum; i++)
        if (of[i].sh_type == SHT_PROGBITS &&
            (of[i].sh_offset > bytes || bytes - of[i].sh_offset < of[i].sh_size))
            return NULL;
    return of;
}

int main(int argc, char **argv)
{
    size_t bytes = 0;
    int arch = 0, n = 0;

    if (argc != 3 || sscanf(argv[1], "sm_%d", &arch) != 1) {
        fprintf(stderr, "usage: sass sm_90a IMAGE\n");
        return 2;
    }
    char *image = read_all(argv[2], &bytes);
    const Elf64_Shdr *of = image ? sections(image, bytes) : NULL;
    if (!of) {
        fprintf(stderr, "sass: %s is not an image of kernels\n", argv[2]);
        return 1;
    }
    const Elf64_Ehdr *head = (const void *)image;
    const char *names = image + of[head->e_shstrndx].sh_offset;
    Row *rows = calloc(head->e_shnum, sizeof *rows);
    for (int i = 0; rows && i < head->e_shnum; i++) {
        const char *name = names + of[i].sh_name;
        if (of[i].sh_type == SHT_PROGBITS && strncmp(name, ".text.", 6) == 0)
            rows[n++] = row(name + 6, (const void *)(image + of[i].sh_offset),
                            (int)(of[i].sh_size / sizeof(Instruction)), arch);
    }
    if (n > 0)
        qsort(rows, (size_t)n, sizeof *rows, by_name);
    for (int i = 0; i < n; i++)
        printf("%s %d %d %d %d %d %d\n", rows[i].name, rows[i].all, rows[i].loop,
               rows[i].hmma, rows[i].ldsm, rows[i].wide, rows[i].narrow);
    free(rows);
    free(image);
    return n > 0 ? 0 : 1;
}
