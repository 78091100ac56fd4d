package importance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
)

// Format of the local log: a header and one record per report. The last two digits of the magic are
// the version.
const (
	keptName     = "kept.reports"
	keptMagic    = "MRKEPT01"
	keptHeader   = 8 + sha256.Size + 4
	recordHeader = 8 // length, and CRC-32C of both length and report
)

// errFull reports that the local log has reached its size limit.
var errFull = errors.New("the local log is full")

// journal is a file of reports that are not in the bucket yet. append returns after its record is
// on the disk. A kill or power loss can leave a partial record. Such a record was never
// acknowledged, and load truncates it.
type journal struct {
	users atomic.Int64 // number of Logs that share the journal

	turn chan struct{} // lock for the fields below; waiting for it can be cancelled by a context
	file *os.File
	size int64 // length of the header and the whole records
	sent int64 // end of the records for which the bucket has responded since the file was opened
	max  int64
	seen map[[sha256.Size]byte]bool // digests of the stored reports
}

// openJournal opens or creates the local log in dir, and locks it against other processes.
func openJournal(dir, location string, limit int64) (*journal, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, keptName), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	j := &journal{turn: make(chan struct{}, 1), file: f, max: limit, seen: map[[sha256.Size]byte]bool{}}
	j.users.Store(1)
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		err = fmt.Errorf("%s: in use by another process: %w", f.Name(), err)
		return nil, errors.Join(err, f.Close())
	}
	if err := j.load(dir, location); err != nil {
		err = fmt.Errorf("%s: %w", f.Name(), err)
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

func keptHead(location string) []byte {
	sum := sha256.Sum256([]byte(location))
	b := append([]byte(keptMagic), sum[:]...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli()))
}

// load checks or writes the header, and finds the end of the last whole record.
func (j *journal) load(dir, location string) error {
	info, err := j.file.Stat()
	if err != nil {
		return err
	}
	want := keptHead(location)
	head := make([]byte, min(info.Size(), keptHeader))
	if _, err := j.file.ReadAt(head, 0); err != nil {
		return err
	}
	j.size, j.sent = keptHeader, keptHeader
	switch {
	case info.Size() <= keptHeader && (string(head) == string(want[:len(head)]) || allZero(head)): // new, or killed before the first record
		if _, err := j.file.WriteAt(want, 0); err != nil {
			return err
		}
		return errors.Join(j.file.Sync(), syncDir(dir))
	case len(head) < keptHeader || string(head[:6]) != keptMagic[:6]:
		return errors.New("not a log of reports")
	case string(head[6:8]) != keptMagic[6:]:
		return fmt.Errorf("version %q: %w", head[6:8], ErrVersion)
	case string(head) != string(want):
		return fmt.Errorf("it belongs to another dataset than %s, or is damaged", location)
	}
	_, err = j.each(keptHeader, info.Size(), func(_ *Report, digest [sha256.Size]byte, end int64) error {
		j.seen[digest], j.size = true, end
		return nil
	})
	if err != nil {
		return err
	}
	return j.file.Truncate(j.size)
}

func allZero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

// each calls visit for every whole record in [from, size), and skips damaged data. It returns the
// number of bytes that are not part of a whole record.
func (j *journal) each(from, size int64, visit func(r *Report, digest [sha256.Size]byte, end int64) error) (lost int64, err error) {
	end := from // end of the last whole record
	for at := end; at < size; {
		b, err := j.record(at, size)
		if err != nil {
			return lost, err
		}
		r, err := decodeReport(b)
		if errors.Is(err, ErrVersion) {
			return lost, fmt.Errorf("record at %d: %w", at, err)
		}
		if err != nil {
			if at, err = j.search(at+1, size); err != nil {
				return lost, err
			}
			continue
		}
		lost += at - end
		at += recordHeader + int64(len(b))
		end = at
		if err := visit(r, sha256.Sum256(b), end); err != nil {
			return lost, err
		}
	}
	return lost + size - end, nil
}

// record reads the report of the record at an offset. It returns nil if there is no whole record at
// this offset.
func (j *journal) record(at, size int64) ([]byte, error) {
	if size-at < recordHeader {
		return nil, nil
	}
	head := make([]byte, recordHeader)
	if _, err := j.file.ReadAt(head, at); err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(head))
	if n > maxReport || n > size-at-recordHeader {
		return nil, nil
	}
	b := make([]byte, n)
	if _, err := j.file.ReadAt(b, at+recordHeader); err != nil {
		return nil, err
	}
	if crc := crc32.Checksum(head[:4], castagnoli()); crc32.Update(crc, castagnoli(), b) != binary.LittleEndian.Uint32(head[4:]) {
		return nil, nil
	}
	return b, nil
}

// search returns the first offset in [at, size) at which a record may begin, or size.
func (j *journal) search(at, size int64) (int64, error) {
	const step = 64 << 10
	buf := make([]byte, step+recordHeader+len(reportMagic))
	for ; at < size; at += step {
		b := buf[:min(int64(len(buf)), size-at)]
		if _, err := j.file.ReadAt(b, at); err != nil {
			return 0, err
		}
		if i := bytes.Index(b[min(len(b), recordHeader):], []byte(reportMagic)); i >= 0 {
			return at + int64(i), nil
		}
	}
	return size, nil
}

// lock locks the journal, or returns the context's error.
func (j *journal) lock(ctx context.Context) error {
	select {
	case j.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (j *journal) unlock() { <-j.turn }

// append stores a report unless the journal already contains it. The caller must hold the lock.
func (j *journal) append(report []byte) error {
	digest := sha256.Sum256(report)
	if j.seen[digest] {
		return nil
	}
	if j.size+recordHeader+int64(len(report)) > j.max {
		return fmt.Errorf("%w: it has %d bytes, and the limit is %d", errFull, j.size, j.max)
	}
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, recordHeader+len(report)), uint32(len(report)))
	crc := crc32.Update(crc32.Checksum(b, castagnoli()), castagnoli(), report)
	b = append(binary.LittleEndian.AppendUint32(b, crc), report...)
	_, err := j.file.WriteAt(b, j.size)
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		return errors.Join(err, j.file.Truncate(j.size))
	}
	j.size += int64(len(b))
	j.seen[digest] = true
	return nil
}

// clear removes all records. The caller must hold the lock.
func (j *journal) clear() error {
	if err := j.file.Truncate(keptHeader); err != nil {
		return err
	}
	j.size, j.sent = keptHeader, keptHeader
	clear(j.seen)
	return j.file.Sync()
}

// close ends the use of the journal by one Log.
func (j *journal) close() error {
	if j.users.Add(-1) > 0 {
		return nil
	}
	return j.file.Close()
}

// keep stores in the local log a report that the bucket refused. It never returns nil.
func (l *Log) keep(ctx context.Context, r *Report, refused error) error {
	if l.kept == nil {
		return &ReadOnlyError{Err: refused}
	}
	if err := l.kept.lock(ctx); err != nil {
		return &ReadOnlyError{Err: errors.Join(refused, err)}
	}
	defer l.kept.unlock()
	if err := l.kept.append(r.encode()); err != nil {
		return &ReadOnlyError{Err: errors.Join(refused, fmt.Errorf("local log: %w", err))}
	}
	return &ReadOnlyError{Kept: true, Err: refused}
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
