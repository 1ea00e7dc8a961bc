# SPDX-License-Identifier: Apache-2.0
# golden.awk, of golden.sh --update: rows of now, then those of the table. Of each op, dtypes and set
# the first row stays; of sets that were not taken now, those whose version is the op's.
/^#/ { next }
{ key = $1 " " $2 " " $3; op = $1 " " $2 }
key in row { next }
op in version && version[op] != $4 { next }
{ row[key] = $0; if (!(op in version)) version[op] = $4 }
END { for (key in row) print row[key] }
