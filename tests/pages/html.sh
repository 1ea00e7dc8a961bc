# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. With FULL=1, and where mkdocs is (Debian: mkdocs): the pages as HTML, and every
# warning is an error. Links between pages and the repository's other texts keep their places.
if [ "$FULL" != 1 ] && [ ${#part_names[@]} = 0 ]; then
    return 0
fi
if ! command -v mkdocs >/dev/null 2>&1; then
    echo "skipped: pages as HTML (no mkdocs here; Debian: apt-get install mkdocs)"
    return 0
fi
site=$WORK/site
mkdir -p "$site/pages"
cp --parents README.md docs/*.md docs/*.svg "$site/pages"
awk -f "$here/links.awk" "${pages[@]}" "${pages[@]}" | awk '$1 == "exists" { print $2 }' | sort -u |
    while read -r file; do [ ! -f "$file" ] || cp --parents "$file" "$site/pages"; done
cat >"$site/mkdocs.yml" <<'YAML'
site_name: fsdpgen
docs_dir: pages
use_directory_urls: false
theme: {name: mkdocs}
markdown_extensions: [tables, fenced_code, toc]
YAML
(cd "$site" && mkdocs build --strict --site-dir html) >"$WORK/mkdocs.log" 2>&1
check "mkdocs builds the pages, strictly" test $? = 0 -a -e "$site/html/docs/reference.html"
# mkdocs does not look at anchors
broken=$WORK/broken
: >"$broken"
grep -rnoE 'href="[^":]*#[^"]+"' "$site/html/docs" "$site/html/index.html" | while IFS=: read -r file _ link; do
    link=${link#href=\"}
    target=${link%%#*}
    id=${link##*#}
    id=${id%\"}
    [ -n "$target" ] && target=$(dirname "$file")/$target || target=$file
    grep -q "id=\"$id\"" "$target" || echo "${file##*/}: $link" >>"$broken"
done
check "every anchor is there" test ! -s "$broken"
