package sandboxtest

import "os"

func fileOwner(os.FileInfo) (uid, gid int) { return -1, -1 }
