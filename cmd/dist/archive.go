package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io/fs"
	"time"
)

// file is what is put into an archive.
type file struct {
	name string
	body []byte
	mode int64
}

// someTime is the time of every file: zip knows none before 1980.
var someTime = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// tarball is a compressed tar archive. Writing to memory does not fail.
func tarball(files []file) []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	t := tar.NewWriter(z)
	for _, f := range files {
		_ = t.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.body)), ModTime: someTime, Format: tar.FormatUSTAR})
		_, _ = t.Write(f.body)
	}
	_ = t.Close()
	_ = z.Close()
	return out.Bytes()
}

// zipped is a zip archive.
func zipped(files []file) []byte {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: someTime}
		h.SetMode(fs.FileMode(f.mode))
		w, err := z.CreateHeader(h)
		if err == nil {
			_, _ = w.Write(f.body)
		}
	}
	_ = z.Close()
	return out.Bytes()
}
