# Runs in the sandbox: puts standard input into a file of the project.
#   $1  the project
#   $2  the file
#   $3  the SHA-256 of the content that may be replaced, or nothing for any;
#       a file that does not exist counts as an empty one
# A file that has another content is left alone: somebody has changed it since.
set -eu
outside() {
	echo "$1 is not in the project $2" >&2
	exit 3
}
root=$(cd -P -- "$1" && pwd -P)
dir=$(dirname -- "$2")
there=$dir # as far as it exists; nothing below it can be a link
while [ ! -d "$there" ]; do there=$(dirname -- "$there"); done
case $(cd -P -- "$there" && pwd -P)/ in
"$root"/*) ;;
*) outside "$2" "$1" ;;
esac
mkdir -p -- "$dir"
file=$dir/$(basename -- "$2")
[ ! -L "$file" ] || outside "$2" "$1"
if [ -n "$3" ]; then
	if [ -e "$file" ]; then now=$(sha256sum <"$file"); else now=$(sha256sum </dev/null); fi
	[ "${now%% *}" = "$3" ] || exit 0
fi
cat >"$file"
