#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# turn.sh N: the option of op_test for every other op, N 0 or 1: which ones follows from SEED, but not from its
# last bits, by which others choose; nothing with FULL=1. What the CPU's
# kernels leave out (bits.sh), the simulated device's compute in the same run (cuda.sh), and golden.sh compares
# the bits of all of both.
[ "${FULL:-0}" = 1 ] && exit
ls "$(dirname "$0")/../../templates/ops" | awk -v of="$(((${SEED:-1} * 48271 % 2147483647 / 8192 + $1) % 2))" \
    'NR % 2 == of { list = list sep $0; sep = "," } END { print "--only " list }'
