# SPDX-License-Identifier: Apache-2.0
# Sourced by suites: the memory that ranks map is the memory planned, to the byte.

# map_hook: builds the library that logs what is mapped (map_hook.c): $WORK/map_hook.so
map_hook() {
    [ -e "$WORK/map_hook.so" ] ||
        cc -O1 -shared -fPIC "$ROOT/tests/e2e/map_hook.c" -o "$WORK/map_hook.so"
}

# mapped_as_planned DIR RANKS: DIR.mapped, the hook's log of one run, and DIR.stats, against plan.json
# and plan.txt. Each rank maps every rank's symmetric space and its own local one, in whole pages;
# --guard ends a space with the planned byte. Says what differs.
mapped_as_planned() {
    local dir=$1 ranks=$2 arena symmetric local_bytes
    arena=$(json_number "$dir/plan.json" arena)
    read -r symmetric local_bytes < <(sed -n \
        's/^ *arena: symmetric \([0-9]*\) + local \([0-9]*\);.*/\1 \2/p' "$dir/plan.txt")
    if [ "$arena" != $((symmetric + local_bytes)) ]; then
        echo "the plan's arena has $arena bytes, its spaces $symmetric + $local_bytes"
        return 1
    fi
    if [ "$(json_number "$dir.stats" arena_bytes)" != "$arena" ]; then
        echo "arena: $(json_number "$dir.stats" arena_bytes) bytes, planned $arena"
        return 1
    fi
    awk -v ranks="$ranks" -v shared="$symmetric" -v private="$local_bytes" '
        function pages(bytes) { return int((bytes + 4095) / 4096) * 4096 }
        { n[$1]++; held[$1, $2]++ }
        $3 != pages($2 == "shared" ? shared : private) {
            print "rank " $1 " maps " $3 " bytes, " $2 ": planned " \
                ($2 == "shared" ? shared : private)
            bad = 1
        }
        END {
            for (pid in n) {
                processes++
                if (held[pid, "shared"] != (shared ? ranks : 0) ||
                    held[pid, "private"] != (private ? 1 : 0)) {
                    print "a process maps " held[pid, "shared"] + 0 " shared and " \
                        held[pid, "private"] + 0 " private spaces"
                    bad = 1
                }
            }
            if (processes != ranks) print processes + 0 " processes map, not " ranks
            exit bad || processes != ranks
        }' "$dir.mapped"
}
