# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: documents.

# g:starts() is nil without documents, so nothing of them is emitted; an architecture that
# never asks for it cannot have them.
check "documents need an architecture that tells them apart" bash -c "
    '$FSDPGEN' '$here/user/model.lua' --ops '$here/user/ops' --set documents.end_id=1 \
        --dump=graph 2>&1 | grep -q 'documents: family does not tell documents apart'"
