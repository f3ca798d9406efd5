package project

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	machine := map[string]string{
		"/etc/passwd": "root:x:0:0:root:/root:/bin/bash\nwww-data:x:33:33::/var/www:/bin/false\nalice:x:1000:1000::/home/alice:/bin/zsh\nagent:x:500:500::/home/other:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n+@ldap\n",
		"/etc/group":  "root:x:0:\nusers:x:100:alice\nalice:x:1000:\nwww-data:x:33:\n",
		"/etc/hosts":  "127.0.0.1 localhost\n10.1.2.3 db.example",
	}
	read := func(path string) string { return machine[path] }
	none := func(string) string { return "" }
	for _, tt := range []struct {
		name          string
		o             Owner
		read          func(string) string
		passwd, group string
	}{
		{
			"a person",
			Owner{UID: 1000, GID: 1000},
			read,
			"agent:x:1000:1000:agent:/home/agent:/bin/bash|root:x:0:0:root:/root:/bin/bash|www-data:x:33:33::/var/www:/bin/false|nobody:x:65534:65534::/:/bin/false|",
			"agent:x:1000:|root:x:0:|users:x:100:alice|www-data:x:33:|",
		},
		{
			"a number of the system's",
			Owner{UID: 33, GID: 100},
			read,
			"agent:x:33:100:agent:/home/agent:/bin/bash|root:x:0:0:root:/root:/bin/bash|nobody:x:65534:65534::/:/bin/false|",
			"root:x:0:|users:x:100:alice|www-data:x:33:|",
		},
		{
			"root",
			Owner{},
			read,
			"root:x:0:0:root:/home/agent:/bin/bash|agent:x:0:0:agent:/home/agent:/bin/bash|www-data:x:33:33::/var/www:/bin/false|nobody:x:65534:65534::/:/bin/false|",
			"root:x:0:|users:x:100:alice|www-data:x:33:|",
		},
		{
			"an image of which nothing is known",
			Owner{UID: 12345, GID: 12345},
			none,
			"agent:x:12345:12345:agent:/home/agent:/bin/bash|root:x:0:0:root:/root:/bin/sh|daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin|nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin|",
			"agent:x:12345:|root:x:0:|daemon:x:1:|nogroup:x:65534:|",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := tt.o.Names("/home/agent", "/bin/bash", tt.read)
			for path, want := range map[string]string{"/etc/passwd": tt.passwd, "/etc/group": tt.group} {
				if got := strings.ReplaceAll(string(files[path]), "\n", "|"); got != want {
					t.Errorf("%s:\n%s\nwant:\n%s", path, got, want)
				}
			}
			if hosts := string(files["/etc/hosts"]); !strings.HasPrefix(hosts, "127.0.0.1 localhost gander\n") || !strings.HasSuffix(hosts, tt.read("/etc/hosts")) {
				t.Errorf("hosts:\n%s", hosts)
			}
		})
	}
}
