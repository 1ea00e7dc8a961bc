/* SPDX-License-Identifier: MIT-0 */
/* rt_limits.c: limits of this process. In: /proc/self/cgroup, which names its control
 * groups; /proc/self/mountinfo, which says where they are mounted; their files; the list
 * of mappings; what a shell's `ulimit` set. Out: the memory and CPUs that are left; why a
 * mapping failed, or a rank may have crashed.
 *
 * A limit may be set on the group of this process or on any group above it, and all of
 * them count: Slurm and systemd limit groups below the mount, and a container that shares
 * the host's names of groups sees its own below the mount, too. Both versions of control
 * groups are read, because a machine may use one for memory and the other for the rest.
 */
#include "job/rt_file.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* One number of a group: the smaller one stays in *least. */
typedef void Look(const char *folder, bool v2, int64_t *least);

/* ---- numbers --------------------------------------------------------------------- */

int64_t rt_limits_number(const char *path, const char *word)
{
    char line[256];
    const size_t skip = strlen(word);
    long long n = -1;
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return -1;
    while (n < 0 && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, word, skip) != 0 || sscanf(line + skip, "%lld", &n) != 1)
            n = -1;
    fclose(f);
    return n;
}

static int64_t number(const char *folder, const char *name, const char *word)
{
    char path[PATH_MAX + RT_NAME_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return rt_limits_number(path, word);
}

/* The kernel can drop cached files. */
static void look_at_memory(const char *folder, bool v2, int64_t *least)
{
    const int64_t limit = number(folder, v2 ? "memory.max" : "memory.limit_in_bytes", ""),
                  used =
                      number(folder, v2 ? "memory.current" : "memory.usage_in_bytes", "");
    int64_t cached =
        number(folder, "memory.stat", v2 ? "inactive_file " : "total_inactive_file ");
    if (limit < 0 || used < 0)
        return; /* "max"; or the mount's own folder, which has no limits */
    cached = cached > used ? used : cached > 0 ? cached : 0;
    const int64_t left = limit - (used - cached);
    *least = left < *least ? left : *least;
}

/* CPU time per period, rounded up to whole CPUs. */
static void look_at_cpus(const char *folder, bool v2, int64_t *least)
{
    char path[PATH_MAX + RT_NAME_BYTES];
    long long granted = -1, period = -1;
    if (v2) {
        snprintf(path, sizeof path, "%s/cpu.max", folder);
        FILE *f = fopen(path, "re");
        if (f == NULL)
            return;
        if (fscanf(f, "%lld %lld", &granted, &period) != 2)
            granted = -1; /* "max" */
        fclose(f);
    } else {
        granted = number(folder, "cpu.cfs_quota_us", "");
        period = number(folder, "cpu.cfs_period_us", "");
    }
    if (granted <= 0 || period <= 0)
        return;
    const int64_t cpus = granted / period + (granted % period != 0);
    *least = cpus < *least ? cpus : *least;
}

/* ---- groups ---------------------------------------------------------------------- */

static bool has_word(const char *list, const char *word)
{
    const size_t bytes = strlen(word);
    for (const char *p = list; *p != '\0'; p += strcspn(p, ","), p += *p == ',')
        if (strcspn(p, ",") == bytes && memcmp(p, word, bytes) == 0)
            return true;
    return false;
}

/* The name of this process's group, of lines like "4:cpu,cpuacct:/name"; version 2 has no
 * controllers there, so it is "". */
static bool find_group(const char *root, const char *controller, char *name, size_t bytes)
{
    char path[PATH_MAX], *line = NULL;
    size_t room = 0;
    bool found = false;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "re");
    while (f != NULL && !found && getline(&line, &room, f) > 0) {
        char *list = strchr(line, ':'), *is = list != NULL ? strchr(list + 1, ':') : NULL;
        if (is == NULL)
            continue;
        *is++ = '\0';
        is[strcspn(is, "\n")] = '\0';
        found = controller[0] == '\0' ? list[1] == '\0' : has_word(list + 1, controller);
        if (found)
            snprintf(name, bytes, "%s", is);
    }
    free(line);
    if (f != NULL)
        fclose(f);
    return found;
}

/* The group's name below the mounted one, "of". Processes outside the mounted part have
 * names with "..": then only the mount itself can be read. */
static const char *below(const char *name, const char *of)
{
    const size_t bytes = strcmp(of, "/") == 0 ? 0 : strlen(of);
    const bool inside = strncmp(name, of, bytes) == 0 &&
                        (name[bytes] == '/' || name[bytes] == '\0') &&
                        strstr(name, "/..") == NULL;
    return inside && strcmp(name + bytes, "/") != 0 ? name + bytes : "";
}

/* From the group up to the mount. */
static void climb(const char *top, const char *name, bool v2, Look *look, int64_t *least)
{
    char folder[PATH_MAX];
    const size_t top_bytes = strlen(top);
    if (snprintf(folder, sizeof folder, "%s%s", top, name) >= (int)sizeof folder)
        return;
    look(folder, v2, least);
    while (strlen(folder) > top_bytes) {
        *strrchr(folder, '/') = '\0';
        look(folder, v2, least);
    }
}

/* Lines of mountinfo: "36 35 0:31 OF AT options - cgroup source rw,memory". */
static void look_at_all(const char *root, const char *controller, Look *look,
                        int64_t *least)
{
    char path[PATH_MAX], name[PATH_MAX], *line = NULL;
    size_t room = 0;
    snprintf(path, sizeof path, "%s/proc/self/mountinfo", root);
    FILE *f = fopen(path, "re");
    while (f != NULL && getline(&line, &room, f) > 0) {
        char of[1024], at[1024], top[2 * PATH_MAX], type[16], options[256];
        const char *rest = strstr(line, " - ");
        if (rest == NULL || sscanf(rest, " - %15s %*s %255s", type, options) != 2 ||
            sscanf(line, "%*s %*s %*s %1023s %1023s", of, at) != 2)
            continue;
        const bool v2 = strcmp(type, "cgroup2") == 0;
        if (!v2 && (strcmp(type, "cgroup") != 0 || !has_word(options, controller)))
            continue;
        if (!find_group(root, v2 ? "" : controller, name, sizeof name))
            continue;
        snprintf(top, sizeof top, "%s%s", root, at);
        climb(top, below(name, of), v2, look, least);
    }
    free(line);
    if (f != NULL)
        fclose(f);
}

int64_t rt_limits_memory_bytes(const char *root)
{
    int64_t least = INT64_MAX;
    look_at_all(root, "memory", look_at_memory, &least);
    return least > 0 ? least : 0;
}

int rt_limits_cpus(const char *root)
{
    int64_t least = INT_MAX;
    look_at_all(root, "cpu", look_at_cpus, &least);
    return (int)least;
}

/* ---- mappings -------------------------------------------------------------------- */

/* vm.max_map_count if this process has about as many; 0: fewer, or unknown. */
static long long reached_mappings(const char *root)
{
    enum { NEARLY = 16 }; /* a few may have been given up since, or been merged */
    char path[PATH_MAX], *line = NULL;
    size_t room = 0;
    int64_t n = 0;
    snprintf(path, sizeof path, "%s/proc/sys/vm/max_map_count", root);
    const int64_t most = rt_limits_number(path, "");
    snprintf(path, sizeof path, "%s/proc/self/maps", root);
    FILE *f = most > 0 ? fopen(path, "re") : NULL;
    while (f != NULL && getline(&line, &room, f) > 0)
        n++;
    free(line);
    if (f != NULL)
        fclose(f);
    return f != NULL && n + NEARLY >= most ? most : 0;
}

const char *rt_limits_map_error(const char *root, int reason)
{
    static _Thread_local char text[160];
    const long long most = reason == ENOMEM ? reached_mappings(root) : 0;
    if (most == 0)
        return strerror(reason);
    snprintf(text, sizeof text,
             "%s: this process has the %lld mappings that vm.max_map_count allows: raise "
             "it, or use fewer, larger files",
             strerror(reason), most);
    return text;
}

/* ---- ulimit ---------------------------------------------------------------------- */

/* Libraries do not check all their allocations, and a full stack gives no error. */
const char *rt_limits_crash(void)
{
    static const struct {
        int limit;
        char letter;
        rlim_t usual;
    } all[] = {{RLIMIT_AS, 'v', RLIM_INFINITY},
               {RLIMIT_DATA, 'd', RLIM_INFINITY},
               {RLIMIT_STACK, 's', 8 << 20}};
    static char text[160];
    struct rlimit r;
    size_t at = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (getrlimit(all[i].limit, &r) != 0 || r.rlim_cur >= all[i].usual)
            continue;
        at += (size_t)snprintf(text + at, sizeof text - at, "%s -%c %llu",
                               at == 0 ? "; does it need more than `ulimit" : "",
                               all[i].letter, (unsigned long long)r.rlim_cur / 1024);
    }
    if (at == 0)
        return "";
    snprintf(text + at, sizeof text - at, "` allows?");
    return text;
}

bool rt_limits_stack(void)
{
    enum { LEAST_KIB = 256 }; /* attention keeps its tiles there */
    struct rlimit r;
    if (getrlimit(RLIMIT_STACK, &r) != 0 || r.rlim_cur / 1024 >= LEAST_KIB)
        return true;
    rt_say("trainer: error: `ulimit -s` allows a stack of %llu KiB, and ranks need at "
           "least %d: raise it, 8192 is usual",
           (unsigned long long)r.rlim_cur / 1024, LEAST_KIB);
    return false;
}
