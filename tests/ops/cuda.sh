#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cuda.sh OP_TEST FOLDER: kernels on the simulated device against their references; of every other op, as
# SEED chooses (turn.sh); FULL=1: of all. Out: exit 1 if one is wrong.
exec "$1" --target cuda --cases 1 --work "$2" $("$(dirname "$0")/turn.sh" 1)
