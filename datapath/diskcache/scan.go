package diskcache

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
)

// scan lists the chunk files by name and length, and removes other files: partial files of a killed
// process, and files of other programs. It does not touch directories.
func (c *Cache) scan() error {
	for i := range 256 {
		sub := fmt.Sprintf("%02x", i)
		if err := c.scanDir(sub); err != nil {
			return fmt.Errorf("%w: use another directory, or delete this one", err)
		}
	}
	return nil
}

func (c *Cache) scanDir(sub string) error {
	dir := path.Join(chunkDir, sub)
	f, err := c.disk.open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		list, err := f.ReadDir(1024)
		for _, e := range list {
			c.scanFile(sub, e)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (c *Cache) scanFile(sub string, d fs.DirEntry) {
	if d.IsDir() {
		return
	}
	n, ok := parseName(sub, d.Name())
	var size int64
	if info, err := d.Info(); ok && err == nil {
		size = info.Size()
	}
	need := Cost(size - footerSize)
	if !ok || !d.Type().IsRegular() || size < footerSize || c.bytes+need > c.cfg.MaxBytes || len(c.entries) >= maxFiles {
		_ = c.disk.remove(path.Join(chunkDir, sub, d.Name()))
		c.stats.Strays++
		return
	}
	c.entries[n] = entry{size: need, ref: unowned}
	c.bytes += need
}
