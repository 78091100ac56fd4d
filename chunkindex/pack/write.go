package pack

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/tempfile"
)

// finish stores one shard, unless the store still holds it from an earlier run.
func (j *job) finish(ctx context.Context, s *shard) (now finishedShard, reuse bool, err error) {
	old, reuse, err := j.recall(ctx, s)
	if err != nil {
		return now, false, fmt.Errorf("pack: %w", err)
	}
	done := chunkindex.Progress{Shards: 1, Samples: uint64(len(s.samples))}
	if reuse && old.Stamp == s.stamp {
		done.Done, done.Kept = s.length, s.length
		j.advance(done)
		return old, true, nil
	}
	body, err := tempfile.File(j.opt.TempDir)
	if err != nil {
		return now, false, fmt.Errorf("pack: build %s: %w", s.name, err)
	}
	defer body.Close() // the file has no name, so closing the file removes it
	sum, err := j.write(ctx, s, body)
	if err != nil {
		return now, false, fmt.Errorf("pack: build %s: %w", s.name, err)
	}
	now = finishedShard{Name: s.name, Size: s.length, ETag: old.ETag, SHA256: sum, Stamp: s.stamp}
	if reuse = reuse && old.SHA256 == sum; !reuse { // otherwise files were touched but the bytes are the same
		if now.ETag, err = j.put(ctx, s, body, sum); err != nil {
			return now, false, fmt.Errorf("pack: %w", err)
		}
	}
	j.advance(done)
	return now, reuse, nil
}

// recall returns the recorded state of a shard. It also reports whether the store still holds an
// object of that size and ETag.
func (j *job) recall(ctx context.Context, s *shard) (old finishedShard, same bool, err error) {
	known := j.done[s.name]
	if len(known) == 0 {
		return finishedShard{}, false, nil
	}
	obj, err := j.store.Stat(ctx, j.prefix+s.name)
	if errors.Is(err, objstore.ErrNotFound) {
		return finishedShard{}, false, nil
	}
	if err != nil {
		return finishedShard{}, false, err
	}
	for _, f := range known {
		if f.Size == s.length && obj.Size == f.Size && obj.ETag == f.ETag && (!same || f.Stamp == s.stamp) {
			old, same = f, true
		}
	}
	return old, same, nil
}

// put stores a shard and returns its ETag. If another machine of the same part has already stored
// the shard with the same bytes, put does not replace it, because readers may use it.
func (j *job) put(ctx context.Context, s *shard, body io.ReaderAt, digest string) (string, error) {
	key := j.prefix + s.name
	obj, err := j.store.Put(ctx, key, body, s.length, objstore.Condition{IfAbsent: j.opt.Share.Parts > 0})
	if !errors.Is(err, objstore.ErrChanged) {
		return obj.ETag, err
	}
	if obj, err = j.store.Stat(ctx, key); err != nil {
		return "", err
	}
	in, err := j.store.Open(ctx, obj.Ref(), 0)
	if err != nil {
		return "", err
	}
	defer in.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, in); err != nil {
		return "", err
	}
	if hex.EncodeToString(sum.Sum(nil)) == digest {
		return obj.ETag, nil
	}
	obj, err = j.store.Put(ctx, key, body, s.length, objstore.Condition{})
	return obj.ETag, err
}

// write writes the tar and returns the SHA-256 of its bytes.
func (j *job) write(ctx context.Context, s *shard, w io.Writer) (string, error) {
	digest := sha256.New()
	var length counter
	t := tar.NewWriter(io.MultiWriter(w, digest, &length))
	buf := make([]byte, 256<<10)
	for i := range s.samples {
		for k := range s.samples[i].members {
			if err := ctx.Err(); err != nil {
				return "", err
			}
			before := int64(length)
			if err := add(t, &s.samples[i].members[k], buf); err != nil {
				return "", err
			}
			j.advance(chunkindex.Progress{Done: int64(length) - before})
		}
	}
	before := int64(length)
	if err := t.Close(); err != nil {
		return "", err
	}
	j.advance(chunkindex.Progress{Done: int64(length) - before})
	if int64(length) != s.length {
		return "", fmt.Errorf("wrote %d bytes instead of the planned %d", length, s.length)
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}

var errChanged = errors.New("the file changed while it was packed")

// add writes one member. It returns an error for a file that has changed since the walk, or that
// changes during the read.
func add(t *tar.Writer, f *file, buf []byte) error {
	if f.text != "" {
		return addText(t, f)
	}
	// Without O_NONBLOCK, opening a pipe that has replaced the file would block the run
	// forever.
	in, err := f.root.OpenFile(filepath.FromSlash(f.path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer in.Close() // opened for reading only
	if err := unchanged(f, in); err != nil {
		return err
	}
	if err := t.WriteHeader(header(f)); err != nil {
		return fmt.Errorf("%s: %w", f.where(), err)
	}
	// The wrapper hides ReadFrom and WriteTo, which would allocate a buffer for each file.
	n, err := io.CopyBuffer(struct{ io.Writer }{t}, io.LimitReader(in, f.info.Size()), buf)
	if err != nil {
		return fmt.Errorf("read %s: %w", f.where(), err)
	}
	if n != f.info.Size() {
		return fmt.Errorf("%s: it had %d bytes, now it has %d: %w", f.where(), f.info.Size(), n, errChanged)
	}
	if err := unchanged(f, in); err != nil {
		return err
	}
	return t.Flush() // flush to count the padding with its member
}

// addText writes a member whose content is f.text instead of a file.
func addText(t *tar.Writer, f *file) error {
	err := t.WriteHeader(header(f))
	if err == nil {
		_, err = io.WriteString(t, f.text)
	}
	if err == nil {
		err = t.Flush()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	return nil
}

func unchanged(f *file, in *os.File) error {
	now, err := in.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(f.info, now) || now.Size() != f.info.Size() || !now.ModTime().Equal(f.info.ModTime()) {
		return fmt.Errorf("%s: it had %d bytes, now it has %d: %w", f.where(), f.info.Size(), now.Size(), errChanged)
	}
	return nil
}
