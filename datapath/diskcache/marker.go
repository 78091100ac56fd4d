package diskcache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	markerFile   = "millrace-disk-cache.json"
	markerTemp   = markerFile + ".tmp"
	lockFile     = "millrace-disk-cache.lock"
	chunkDir     = "chunks"
	markerFormat = "millrace disk cache"
	markerLimit  = 1 << 20 // maximum size of a marker in bytes
	rememberMost = 64      // maximum number of datasets in a marker
)

// marker is the content of the file that identifies a directory as a disk cache.
type marker struct {
	Format   string   `json:"format"`
	Version  int      `json:"version"`
	Datasets []string `json:"datasets"`
}

// prepare opens and locks the directory. It checks that the directory is empty, or is a disk cache
// of this program with chunks of one of the datasets. In any other directory it creates nothing.
func (c *Cache) prepare() error {
	if err := (&Cache{cfg: c.cfg, space: space}).check(); err != nil {
		return err
	}
	err := os.MkdirAll(c.cfg.Dir, 0o700)
	if err != nil {
		return err
	}
	if c.disk.root, err = os.OpenRoot(c.cfg.Dir); err != nil {
		return err
	}
	if err := c.takeLock(); err != nil {
		return err
	}
	known, err := c.known() // read again: another process may have locked it first
	if err != nil {
		return err
	}
	// Chunk files are in directories that are always private. Their parent is made private if this
	// process owns it.
	_ = c.disk.root.Chmod(".", 0o700)
	if err := c.mark(known); err != nil && known == nil { // if the disk is full, the names are written another time
		return err
	}
	return c.disk.mkdir(chunkDir)
}

// Check returns the error that Open would return, except for a directory in use by another process.
// It changes nothing.
func Check(cfg Config) error {
	if err := (&Cache{cfg: cfg, space: space}).check(); err != nil {
		return fmt.Errorf("open disk cache %s: %w", cfg.Dir, err)
	}
	return nil
}

func (c *Cache) check() (err error) {
	defer c.Close()
	for { // check the nearest existing parent of a directory that does not exist
		if c.disk.root, err = os.OpenRoot(c.cfg.Dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		parent := filepath.Dir(filepath.Clean(c.cfg.Dir))
		if parent == c.cfg.Dir {
			return err
		}
		c.cfg.Dir = parent
		if err := c.checkSpace(true); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err != nil {
		return err
	}
	known, err := c.known()
	if err == nil && known == nil {
		err = c.empty()
	}
	if err != nil {
		return err
	}
	return c.checkSpace(known == nil)
}

// known reads the marker, or returns nil if there is none. It returns an error for a marker that
// does not match.
func (c *Cache) known() (*marker, error) {
	f, err := c.disk.root.Open(markerFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text := make([]byte, markerLimit)
	n, err := f.ReadAt(text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var m marker
	if err := json.Unmarshal(text[:n], &m); err != nil || m.Format != markerFormat || m.Version < 1 {
		return nil, fmt.Errorf("%s was not written by this program: use another directory, or delete this one", markerFile)
	}
	if m.Version > version {
		return nil, fmt.Errorf("it was written by a newer program, in format version %d: this program supports version %d: "+
			"use another directory, or delete this one", m.Version, version)
	}
	if len(m.Datasets) > 0 && !c.holds() { // an earlier start wrote no chunks, perhaps because its dataset was mistyped
		m.Datasets = nil
	}
	common := slices.ContainsFunc(m.Datasets, func(d string) bool { return slices.Contains(c.cfg.Datasets, d) })
	if len(m.Datasets) > 0 && len(c.cfg.Datasets) > 0 && !common {
		return nil, fmt.Errorf("it contains chunks of %s, but none of %s: use another directory, or delete this one",
			strings.Join(m.Datasets, ", "), strings.Join(c.cfg.Datasets, ", "))
	}
	return &m, nil
}

// holds reports whether there is any chunk file.
func (c *Cache) holds() bool {
	dirs, _ := fs.Glob(c.disk.root.FS(), chunkDir+"/??")
	return slices.ContainsFunc(dirs, func(dir string) bool {
		f, err := c.disk.root.Open(dir)
		if err != nil {
			return true // assume that there are chunks
		}
		defer f.Close()
		names, _ := f.Readdirnames(1)
		return len(names) > 0
	})
}

// empty returns an error if a directory holds anything except files of an interrupted first start.
func (c *Cache) empty() error {
	d, err := c.disk.root.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, n := range names {
		if !slices.Contains([]string{lockFile, markerTemp, "lost+found"}, n) {
			return fmt.Errorf("it is neither a disk cache of this program nor empty (it contains %q): use an empty directory", n)
		}
	}
	return nil
}

func (c *Cache) takeLock() error {
	f, err := c.disk.root.OpenFile(lockFile, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := lock(f); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return errors.New("another process uses the directory: give each gateway its own directory")
		}
		return fmt.Errorf("lock %s: %w", lockFile, err)
	}
	c.lock = f
	return nil
}

// mark writes the marker: the current datasets, and earlier ones up to the limit.
func (c *Cache) mark(before *marker) error {
	m := marker{Format: markerFormat, Version: version, Datasets: slices.Compact(slices.Sorted(slices.Values(c.cfg.Datasets)))}
	if before != nil {
		for _, d := range before.Datasets {
			if !slices.Contains(m.Datasets, d) && len(m.Datasets) < rememberMost {
				m.Datasets = append(m.Datasets, d)
			}
		}
		if before.Version == m.Version && slices.Equal(before.Datasets, m.Datasets) {
			return nil
		}
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := c.disk.write(markerTemp, func(add func([]byte) error) error { return add(append(text, '\n')) }); err != nil {
		return err
	}
	if err := c.disk.rename(markerTemp, markerFile); err != nil {
		return err
	}
	// Synced once, so that a power failure cannot leave chunks without a marker: the directory
	// would not be recognized.
	d, err := c.disk.root.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Hold adds datasets to those in the marker, so that the directory is recognized as theirs after a
// restart. While the disk hangs it returns an error after Stall.
func (c *Cache) Hold(datasets []string) error {
	err := c.writes.do(context.Background(), func(*memory) error { return c.hold(datasets) })
	if err != nil {
		return fmt.Errorf("disk cache %s: %w", c.cfg.Dir, err)
	}
	return nil
}

func (c *Cache) hold(datasets []string) error {
	c.marking.Lock()
	defer c.marking.Unlock()
	held := c.cfg.Datasets
	all := slices.Clone(held)
	for _, d := range datasets {
		if !slices.Contains(held, d) {
			all = append(all, d)
		}
	}
	if len(all) == len(held) {
		return nil
	}
	before, err := c.known()
	if err == nil {
		c.cfg.Datasets = all[max(0, len(all)-rememberMost):]
		err = c.mark(before)
	}
	if err != nil {
		c.cfg.Datasets = held
	}
	return err
}

// checkSpace returns an error if this process may not write to a directory, or if the file system
// is smaller than MaxBytes. For a new cache it requires MaxBytes of free space.
func (c *Cache) checkSpace(fresh bool) error {
	total, free, err := c.space(c.cfg.Dir)
	if err == nil {
		err = writable(c.cfg.Dir)
	}
	switch {
	case err != nil:
		return err
	case c.cfg.MaxBytes > total:
		return fmt.Errorf("its size of %d bytes is more than the %d bytes of the file system", c.cfg.MaxBytes, total)
	case fresh && c.cfg.MaxBytes > free:
		return fmt.Errorf("its size of %d bytes is more than the %d bytes that are free on the file system", c.cfg.MaxBytes, free)
	}
	return nil
}
