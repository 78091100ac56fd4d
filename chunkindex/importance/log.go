package importance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/millrace-data/millrace/internal/objstore"
)

// Config locates the reports and snapshots of one dataset. Reader and Prefix are required.
type Config struct {
	Reader objstore.Reader
	Writer objstore.Writer // nil: never write to the bucket
	Prefix string          // the dataset's location in the store: empty, or ending in a slash

	// Dir contains the local log, a file that stores reports that the bucket did not accept.
	// Only one process can use it. Empty: no local log.
	Dir      string
	Location string // the dataset's address without secrets; New rejects the local log of another dataset
	MaxKept  int64  // size limit of the local log; 0: DefaultMaxKept
	Beside   *Log   // an open Log of the same dataset, which shares its local log; nil: not shared

	CacheDir string // directory for local copies of snapshots; empty: unnamed temporary files
}

// DefaultMaxKept is the default size limit of the local log, in bytes.
const DefaultMaxKept = 1 << 30

// Log provides the reports and snapshots of one dataset in the bucket, from all writers. It is safe
// for concurrent use. Any number of Logs and processes may share a bucket.
type Log struct {
	cfg  Config
	kept *journal // nil: no Dir

	pairs sync.Map // keys of the epochs that are known to have reports
}

// New opens the log of a dataset. It sends no request to the store.
func New(cfg Config) (*Log, error) {
	if cfg.Reader == nil {
		return nil, errors.New("importance log: no store")
	}
	if cfg.Prefix != "" && !strings.HasSuffix(cfg.Prefix, "/") {
		return nil, fmt.Errorf("importance log: prefix %q does not end in a slash", cfg.Prefix)
	}
	if cfg.MaxKept == 0 {
		cfg.MaxKept = DefaultMaxKept
	}
	l := &Log{cfg: cfg}
	switch {
	case cfg.Beside != nil:
		if l.kept = cfg.Beside.kept; l.kept != nil {
			l.kept.users.Add(1)
		}
		l.cfg.Beside = nil
	case cfg.Dir != "":
		kept, err := openJournal(cfg.Dir, cfg.Location, cfg.MaxKept)
		if err != nil {
			return nil, fmt.Errorf("importance log: %w", err)
		}
		l.kept = kept
	}
	return l, nil
}

// Close releases the local log, unless another Log shares it. The log's reports stay on the disk.
func (l *Log) Close() error {
	if l.kept == nil {
		return nil
	}
	return l.kept.close()
}

// Key prefixes of the objects stored with a dataset.
const (
	roomDir = ".millrace/importance/"
	logDir  = roomDir + "log/"
)

func (l *Log) snapshotKey(digest string) string { return l.cfg.Prefix + roomDir + digest }

// epochPrefix returns the key prefix of all reports of an epoch.
func (l *Log) epochPrefix(plan string, epoch uint64) string {
	return fmt.Sprintf("%s%s%s/%020d/", l.cfg.Prefix, logDir, planHash(plan), epoch)
}

func (l *Log) key(r *Report) string { return l.epochPrefix(r.Plan, r.Epoch) + r.name().String() }

func (l *Log) batchPrefix(r *Report) string {
	return fmt.Sprintf("%s%018d/%020d-", l.epochPrefix(r.Plan, r.Epoch), r.Batch/perDir, r.Batch)
}

// perDir is the number of batches per directory. It is small enough to list a directory of a file
// store for every report, and large enough to limit the number of directories.
const perDir = 100

// name is the last part of a report's key, after the epoch.
type name struct {
	batch       uint64
	first, last uint64 // lowest and highest reported positions, relative to the batch's first position
	hash        string // SHA-256 of all positions in the report
}

func (r *Report) name() name {
	n := len(r.Positions)
	return name{batch: r.Batch, first: r.Positions[0] - r.First, last: r.Positions[n-1] - r.First, hash: r.positionsHash()}
}

// String zero-pads the numbers, so that keys in byte order are in the order of batches.
func (n name) String() string {
	return fmt.Sprintf("%018d/%020d-%07d-%07d-%s", n.batch/perDir, n.batch, n.first, n.last, n.hash)
}

func parseName(s string) (name, error) {
	var n name
	_, file, _ := strings.Cut(s, "/")
	if parts := strings.SplitN(file, "-", 4); len(parts) == 4 {
		n.hash = parts[3]
		for i, number := range []*uint64{&n.batch, &n.first, &n.last} {
			*number, _ = strconv.ParseUint(parts[i], 10, 64)
		}
	}
	if n.String() != s || n.first > n.last || n.last >= MaxBatch || !isDigest(n.hash) {
		return name{}, corrupt("the key is not the name of a report")
	}
	return n, nil
}

// Add stores a report. It also reports whether the report contains new losses. If a loss is already
// stored, by any reader or gateway, Add accepts the same loss again. For a different loss of a
// position, Add returns a *ConflictError and stores nothing. For an invalid report, it returns
// ErrInvalid. If the bucket denies writes, Add returns a *ReadOnlyError, which states whether the
// local log stores the report.
//
// If two gateways receive different reports at the same time, both may be stored unless their
// positions are exactly the same. Freeze resolves such conflicts deterministically and counts them.
func (l *Log) Add(ctx context.Context, r Report) (added bool, err error) {
	if err := r.Check(); err != nil {
		return false, err
	}
	c := r.canonical()
	added, err = l.store(ctx, c)
	if errors.Is(err, objstore.ErrDenied) || errors.Is(err, errNoWriter) {
		return false, l.keep(ctx, c, err)
	}
	if err != nil {
		return false, fmt.Errorf("report of batch %d of epoch %d: %w", r.Batch, r.Epoch, err)
	}
	return added, nil
}

// store writes a canonical report to the bucket.
func (l *Log) store(ctx context.Context, r *Report) (added bool, err error) {
	known, err := l.compare(ctx, r)
	if err != nil || known {
		return false, err
	}
	if l.cfg.Writer == nil {
		return false, errNoWriter
	}
	if err := l.begin(ctx, r); err != nil {
		return false, err
	}
	key, b := l.key(r), r.encode()
	_, err = l.cfg.Writer.Put(ctx, key, bytes.NewReader(b), int64(len(b)), objstore.Condition{IfAbsent: true})
	if !errors.Is(err, objstore.ErrChanged) {
		return err == nil, err
	}
	// Another writer was first, or the response to this write was lost.
	obj, err := l.cfg.Reader.Stat(ctx, key)
	if err != nil {
		return false, err
	}
	stored, err := l.read(ctx, obj, r.Plan, r.Epoch)
	if err != nil {
		return false, err
	}
	_, err = r.against(stored)
	return false, err
}

// compare compares a report with the stored reports of its batch, and returns whether they contain
// all of it. It skips reports whose names show that their positions do not overlap, so the other
// readers' shares of a batch cost no read.
func (l *Log) compare(ctx context.Context, r *Report) (known bool, err error) {
	left := len(r.Positions)
	seen := map[uint64]bool{}
	own := r.name()
	err = l.cfg.Reader.List(ctx, l.batchPrefix(r), func(obj objstore.Object) error {
		n, err := parseName(strings.TrimPrefix(obj.Key, l.epochPrefix(r.Plan, r.Epoch)))
		if err != nil {
			return fmt.Errorf("%s: %w", obj.Key, err)
		}
		if n.last < own.first || n.first > own.last {
			return nil
		}
		stored, err := l.read(ctx, obj, r.Plan, r.Epoch)
		if err != nil {
			return err
		}
		same, err := r.against(stored)
		for _, p := range same {
			if !seen[p] {
				seen[p] = true
				left--
			}
		}
		return err
	})
	return left == 0, err
}

// against returns the positions for which a stored report of the same batch has the same loss. It
// returns a *ConflictError for the first position with a different loss.
func (r *Report) against(stored *Report) (same []uint64, err error) {
	if stored.First != r.First || stored.Count != r.Count {
		return nil, fmt.Errorf("%w: global batch %d has %d positions from %d on; stored reports of it have %d from %d on",
			ErrInvalid, r.Batch, r.Count, r.First, stored.Count, stored.First)
	}
	for i, j := 0, 0; i < len(r.Positions) && j < len(stored.Positions); {
		switch {
		case r.Positions[i] < stored.Positions[j]:
			i++
		case r.Positions[i] > stored.Positions[j]:
			j++
		case r.Losses[i] != stored.Losses[j]:
			return nil, &ConflictError{Position: r.Positions[i], Stored: stored.Losses[j], Reported: r.Losses[i]}
		default:
			same = append(same, r.Positions[i])
			i, j = i+1, j+1
		}
	}
	return same, nil
}

// read fetches a report and checks that it matches its key.
func (l *Log) read(ctx context.Context, obj objstore.Object, plan string, epoch uint64) (*Report, error) {
	r, err := l.readObject(ctx, obj, plan, epoch)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", obj.Key, err)
	}
	return r, nil
}

func (l *Log) readObject(ctx context.Context, obj objstore.Object, plan string, epoch uint64) (*Report, error) {
	n, err := parseName(strings.TrimPrefix(obj.Key, l.epochPrefix(plan, epoch)))
	if err != nil {
		return nil, err
	}
	if obj.Size < reportHeader || obj.Size > maxReport {
		return nil, corrupt("invalid size of a report: %d bytes", obj.Size)
	}
	b := make([]byte, obj.Size)
	if err := l.cfg.Reader.ReadRange(ctx, obj.Ref(), 0, b); err != nil {
		return nil, err
	}
	r, err := decodeReport(b)
	if err != nil {
		return nil, err
	}
	if r.Plan != plan || r.Epoch != epoch || r.name() != n {
		return nil, corrupt("it contains a report of batch %d of epoch %d, but of another plan, or of other positions than its name indicates", r.Batch, r.Epoch)
	}
	return r, nil
}
