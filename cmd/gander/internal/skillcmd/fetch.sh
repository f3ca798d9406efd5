# fetch URL COMMIT FOLDER prints an archive of a folder of a repository at a commit. No setting
# of a person or a machine counts, so that there are no filters; submodules stay away.
set -e
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0 GIT_ALLOW_PROTOCOL=https:ssh
if [ -n "$GANDER_SSH_DOOR" ]; then # where the person's ssh answers; a server of protocol 0 ends by itself
  export GIT_SSH_VARIANT=simple GIT_SSH_COMMAND='bash "$HOME/ssh"' GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=protocol.version GIT_CONFIG_VALUE_0=0
  cat > "$HOME/ssh" <<'END'
exec 3<>"$GANDER_SSH_DOOR" 4<&0
cat <&4 >&3 &
cat <&3
kill $!
END
fi
git init -q --bare "$HOME/skill.git" >&2
cd "$HOME/skill.git"
git fetch -q --depth=1 --no-tags --no-recurse-submodules "$1" "$2" >&2 2>/dev/null ||
  git fetch -q --no-tags --no-recurse-submodules "$1" '+refs/heads/*:refs/skill/*' >&2
[ "$(git cat-file -t "$2")" = commit ] || { echo "there is no commit $2" >&2; exit 1; }
exec git archive --format=tar "$2:$3"
