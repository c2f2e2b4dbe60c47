#!/bin/sh
# Runs a command with cargo so that every binary of tests names its tests, and then tells their results. Cargo calls this
# script again, with the binary and what it is to be given. REMAND_RESULTS is the pipe.
pipe=${0%/*}/pipe

case $1 in
*/deps/*) ;;
*)
    if [ -n "$REMAND_CARGO" ]; then exec "$@"; fi # a program of the project, or a test in its documentation
    echo '{"kind":"unfit"}' >"$pipe"
    if grep -Eqs '^[[:space:]]*runner[[:space:]]*=' .cargo/config.toml .cargo/config; then exec "$@"; fi
    host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
    export REMAND_CARGO=1 "CARGO_TARGET_${host}_RUNNER=$0"
    exec "$@"
    ;;
esac

binary=$1
shift
unset REMAND_CARGO $(env | sed -n 's/^\(CARGO_TARGET_[A-Z0-9_]*_RUNNER\)=.*/\1/p')
has_own_harness() {
    awk '/^\[/ { table = $0 } /^[ \t]*harness[ \t]*=[ \t]*false/ && table !~ /bench/ { found = 1 } END { exit !found }' Cargo.toml
}
if has_own_harness; then
    echo '{"kind":"untold"}' >"$pipe"
    exec "$binary" "$@"
fi
name=${binary##*/}
name=${name%-*}
printf '{"kind":"start","pid":%d,"id":"%s","names_all":true}\n' $$ "$name" >"$pipe"
"$binary" "$@" --list 2>/dev/null | sed -n \
    -e "s/^\\([^\"\\\\]*\\): test\$/{\"kind\":\"collected\",\"pid\":$$,\"ids\":[\"$name::\\1\"]}/p" \
    -e "s/^[0-9]* tests*, [0-9]* benchmarks*\$/{\"kind\":\"named\",\"pid\":$$}/p" >"$pipe"
help=$("$binary" --help 2>/dev/null)
case $help in
*--logfile*)
    "$binary" --logfile "$pipe" "$@"
    status=$?
    echo >&2 # libtest says without a line's end that this option may go
    ;;
*)
    "$binary" "$@"
    status=$?
    if [ -n "$help" ]; then echo '{"kind":"untold"}' >"$pipe"; fi
    ;;
esac
printf '{"kind":"end","pid":%d}\n' $$ >"$pipe"
exit "$status"
