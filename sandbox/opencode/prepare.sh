# Runs in the sandbox before opencode starts.
#   $1  the home directory
#   $2  the program
#   $3  the version to assume when the program's package does not say
# Prints what there is, one name=value per line; the working directory is the project.
set -eu
umask 077

# Every start of opencode leaves a library of 5.6 MB in TMPDIR.
rm -rf "$1/.tmp"
mkdir -p "$1/.tmp"

# opencode installs its plugin interface from the npm registry into its
# configuration directory, unless it seems to be there.
version=
program=$(command -v "$2" || true)
if [ -n "$program" ]; then
	package=$(dirname "$(dirname "$(readlink -f "$program")")")/package.json
	[ ! -r "$package" ] || version=$(sed -n 's/.*"version": *"\([0-9A-Za-z.+-]*\)".*/\1/p' "$package" | head -n 1)
fi
needs="\"dependencies\":{\"@opencode-ai/plugin\":\"${version:-$3}\"}"
config=$1/.config/opencode
mkdir -p "$config/node_modules"
printf '{%s}\n' "$needs" >"$config/package.json"
printf '{"packages":{"":{%s}}}\n' "$needs" >"$config/package-lock.json"

# opencode waits until its time is over for a shell that a signal has ended. This one ends with 128
# and the number of the signal then, and says which one it was.
if path=$(command -v bash); then
	shell=$1/.local/lib/gander/bash
	mkdir -p "${shell%/*}"
	rm -rf "$shell"
	printf '#!/bin/sh\n%s "$@"\nexit $?\n' "$path" >"$shell"
	chmod 700 "$shell"
	echo "bash=$shell"
fi
if path=$(command -v rg); then
	echo "rg=$path"
fi
# The first of these is what opencode would read by itself.
for file in AGENTS.md CLAUDE.md CONTEXT.md; do
	if [ -f "$file" ]; then
		echo "instructions=$PWD/$file"
		break
	fi
done
for file in opencode.json opencode.jsonc .opencode; do
	if [ -e "$file" ]; then
		echo "ignored=$file"
	fi
done
