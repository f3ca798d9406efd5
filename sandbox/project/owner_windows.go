package project

import "io/fs"

func fileOwner(fs.FileInfo) (uid, gid int, known bool) { return 0, 0, false }

func links(fs.FileInfo) uint64 { return 1 }
