/* SPDX-License-Identifier: Apache-2.0 */
/* held.c: held FILE maps a file, changes a byte in its middle, says so, and changes it
 * again for each line it hears: what an editor of large files does. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

int main(int argc, char **argv)
{
    char line[16];
    struct stat s;
    const int fd = argc == 2 ? open(argv[1], O_RDWR) : -1;
    volatile char *at =
        fd >= 0 && fstat(fd, &s) == 0
            ? mmap(NULL, (size_t)s.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
            : MAP_FAILED;

    if (at == MAP_FAILED)
        return 1;
    do {
        at[s.st_size / 2]++;
        puts("changed");
    } while (fflush(stdout) == 0 && fgets(line, sizeof line, stdin));
    return 0;
}
