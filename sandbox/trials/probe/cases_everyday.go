package probe

// everydayCases are about what sandboxes show and keep for everyday work. $HOSTHOME is the home of
// a person with toolchains, which are shown, and credentials beside them, which are not.
func everydayCases() []Case {
	cases := []Case{
		sh("credentials beside a toolchain, by dots", `cat "$HOSTHOME/.cargo/bin/../credentials.toml"`),
		sh("credentials beside a toolchain, from inside it", `cd "$HOSTHOME/.cargo/bin" && cat ../credentials.toml`),
		sh("credentials beside a toolchain, by a link in it", `cat "$HOSTHOME/.cargo/bin/key"`),
		sh("credentials beside a toolchain, by a new link", `ln -s "$HOSTHOME/.cargo" l; cat l/credentials.toml`),
		sh("credentials beside a toolchain, by a hard link", `ln "$HOSTHOME/.cargo/credentials.toml" h && cat h`),
		sh("credentials beside a toolchain, by a descriptor of it", `exec 9< "$HOSTHOME/.cargo/bin"; cat /proc/self/fd/9/../credentials.toml`),
		sh("credentials by a toolchain that is a link", `cat "$HOSTHOME/.nvm/versions/id_ed25519"`),
		sh("credentials by a toolchain that is a link to another's", `cat "$HOSTHOME/.pyenv/versions/credentials.toml"`),
		sh("all below the home", `find -L "$HOSTHOME" -type f -exec cat {} +`, "find"),
		sh("a toolchain gets another program", `: > "$HOSTHOME/.cargo/bin/new" && rm "$HOSTHOME/.cargo/bin/new" && echo "$1"`),
		sh("a toolchain's program is changed", `: >> "$HOSTHOME/.cargo/bin/cargo" && echo "$1"`),
		sh("a toolchain's program is moved", `mv "$HOSTHOME/.cargo/bin/cargo" "$HOSTHOME/.cargo/bin/c" && mv "$HOSTHOME/.cargo/bin/c" "$HOSTHOME/.cargo/bin/cargo" && echo "$1"`),
		sh("a toolchain's program gets another mode", `chmod 700 "$HOSTHOME/.cargo/bin/cargo" && chmod 755 "$HOSTHOME/.cargo/bin/cargo" && echo "$1"`),
		sh("another project's caches", `cat "$HOSTHOME/../state/caches/other/files/npm/key"`),
		sh("another project's caches, by a link", `ln -s "$HOSTHOME/../state/caches/other/files" l; cat l/npm/key`),
		sh("another project's caches, by dots", `cat "$HOSTHOME/../state/caches/mine/../other/files/npm/key"`),
		sh("another project's caches are poisoned", `: > "$HOSTHOME/../state/caches/other/files/npm/new" && rm "$HOSTHOME/../state/caches/other/files/npm/new" && echo "$1"`),
	}
	for _, name := range []string{".m2/settings.xml", ".npmrc", ".pypirc", ".config/pip/pip.conf", ".gem/credentials", ".gradle/gradle.properties", ".yarnrc.yml"} {
		cases = append(cases, sh("the secrets of ~/"+name, `cat "$HOSTHOME/`+name+`" ~/`+name+` 2>/dev/null`))
	}
	for _, file := range []string{"/etc/passwd", "/etc/group", "/etc/hosts", "/etc/nsswitch.conf"} {
		cases = append(cases, rooted(sh(file+" is written", `: >> `+file+` && echo "$1"`, file)))
	}
	for _, device := range []string{"/dev/kvm", "/dev/fuse", "/dev/net/tun", "/dev/dri/renderD128", "/dev/nvidia0", "/dev/loop0", "/dev/loop-control", "/dev/vda", "/dev/sda", "/dev/port"} {
		cases = append(cases, rooted(sh("the device "+device, `: < `+device+` && echo "$1"`, device)))
	}
	return cases
}
