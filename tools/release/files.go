package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is a file of an archive. The name of a directory ends with a slash.
type file struct {
	name  string
	data  []byte
	mode  int64
	owner int // ID of the user and of the group
}

func sorted(files []file) []file {
	return slices.SortedFunc(slices.Values(files), func(a, b file) int { return cmp.Compare(a.name, b.name) })
}

// readTree reads the files below dir, and prefixes their names with below.
func readTree(dir, below string) (files []file, err error) {
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		name, _ := filepath.Rel(dir, p)
		files = append(files, file{name: path.Join(below, filepath.ToSlash(name)), data: data, mode: 0o644})
		return err
	})
	return files, err
}

// writeTar writes files in the given order, all with the same time.
func writeTar(w io.Writer, files []file, at time.Time) error {
	out := tar.NewWriter(w)
	for _, f := range files {
		h := &tar.Header{
			Name: f.name, Size: int64(len(f.data)), Mode: f.mode, ModTime: at, Uid: f.owner, Gid: f.owner, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR,
		}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := out.Write(f.data); err != nil {
			return err
		}
	}
	return out.Close()
}

// writeTarGz writes a compressed archive to dist.
func (r *release) writeTarGz(name string, files []file) error {
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := writeTar(zip, sorted(files), r.time); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	return r.write(name, out.Bytes())
}

func (r *release) write(name string, data []byte) error {
	return os.WriteFile(filepath.Join(r.out, name), data, 0o644)
}

// writeArchives writes an archive for each platform, with the program and its accompanying files.
// They are in a directory named after the version and the platform.
func (r *release) writeArchives() error {
	for _, p := range r.programs {
		top := "millrace-" + r.version + "-" + p.system + "-" + p.arch
		data, err := os.ReadFile(p.path)
		if err != nil {
			return err
		}
		files := []file{{name: top + "/millrace", data: data, mode: 0o755}}
		for _, f := range r.papers {
			files = append(files, file{name: top + "/" + f.name, data: f.data, mode: f.mode})
		}
		if err := r.writeTarGz(top+".tar.gz", files); err != nil {
			return err
		}
	}
	return nil
}

// writeChart packs the Helm chart. The chart's version and the program's version in it are the
// version of the release.
func (r *release) writeChart() error {
	files, err := readTree(filepath.Join(r.root, "deploy", "helm", "millrace"), "millrace")
	if err != nil {
		return err
	}
	for i, f := range files {
		if f.name != "millrace/Chart.yaml" {
			continue
		}
		lines := strings.Split(string(f.data), "\n")
		for j, line := range lines {
			if key, _, _ := strings.Cut(line, ":"); key == "version" || key == "appVersion" {
				lines[j] = fmt.Sprintf("%s: %q", key, r.version)
			}
		}
		files[i].data = []byte(strings.Join(lines, "\n"))
	}
	return r.writeTarGz("millrace-"+r.version+".tgz", files)
}

// writeSums writes SHA256SUMS of all files of dist, in the format of `sha256sum --check`.
func (r *release) writeSums() error {
	if err := os.RemoveAll(filepath.Join(r.out, "SHA256SUMS")); err != nil {
		return err
	}
	files, err := readTree(r.out, "")
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, f := range sorted(files) {
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(f.data), f.name)
	}
	return r.write("SHA256SUMS", sums.Bytes())
}
