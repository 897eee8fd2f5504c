#!/bin/sh
# Starts the connector that lies beside this script; acp.json runs it as `sh start.sh`.
#
# A shell script instead of the program itself, because hosts differ: some unzip without mode bits, and some resolve only
# the arguments against the folder and not the command. `sh` needs no mode bit, and $0 tells where the folder is.

set -u
# An empty environment has no search path; the tools below are in the standard places.
PATH=${PATH:-/usr/bin:/bin}

case $0 in
*/*) folder=${0%/*} ;;
*) folder=. ;;
esac
program=$folder/@PROGRAM@

# The bit was lost while unzipping: put it back. Only the mode changes, the folder's content stays as it is.
[ -x "$program" ] || chmod u+x "$program" 2>/dev/null || true

if [ -x "$program" ]; then
  # From here on the program is this process: signals and the end of the input reach it directly.
  exec "$program" "$@"
fi

# The folder can't be changed, or nothing in it may be executed. A file without the bit can't be started, so start a
# private copy. The script stays to remove it; the copy ends with its input, as the original would.
copy=$(mktemp -d "${ACP_TMP_DIR:-${TMPDIR:-/tmp}}/@PROGRAM@.XXXXXX") || exit 1
trap 'rm -rf "$copy"' EXIT
cp "$program" "$copy/@PROGRAM@" && chmod 700 "$copy/@PROGRAM@" || exit 1
"$copy/@PROGRAM@" "$@"
