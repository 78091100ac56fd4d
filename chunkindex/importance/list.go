package importance

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

// StoredSnapshot describes a snapshot in the bucket. The fields come from the snapshot's header.
type StoredSnapshot struct {
	objstore.Object
	Digest     string
	Generation string
	Plan       string // identity of the plan for which losses were reported
	Epoch      uint64
	Samples    uint64
	Positions  uint64 // number of positions with reported losses
	Fault      error  // error that prevented reading the fields other than Digest
}

// StoredReports describes the reports of one epoch of one plan.
type StoredReports struct {
	Dir        string // key prefix of the reports
	Generation string // "" if the plan does not state it
	Plan       string
	Epoch      uint64
	Batches    uint64 // number of batches with reports
	Bytes      int64
	Newest     time.Time
	Objects    []objstore.Object
	Notes      []objstore.Object // markers that the epoch was begun or frozen; to be removed with the reports
	Fault      error             // error that prevented reading Plan and Generation
}

// Stored lists the snapshots and reports of the dataset. It reads the headers of the snapshots and
// one report per plan.
func (l *Log) Stored(ctx context.Context) (snapshots []StoredSnapshot, reports []StoredReports, err error) {
	room := l.cfg.Prefix + roomDir
	var last uint64                         // batch of the preceding report
	notes := map[string][]objstore.Object{} // markers of epochs, by the key prefix of the epoch's reports; the listing returns them before the reports
	err = l.cfg.Reader.List(ctx, room, func(o objstore.Object) error {
		key := strings.TrimPrefix(o.Key, room)
		if isDigest(key) {
			snapshots = append(snapshots, StoredSnapshot{Object: o, Digest: key})
			return nil
		}
		if dir, ok := parsePair(key); ok {
			notes[room+dir] = append(notes[room+dir], o)
			return nil
		}
		dir, epoch, n, ok := parseKey(key)
		if !ok {
			return nil // no object of this package, such as an empty directory object of a tool
		}
		dir = room + dir
		if len(reports) == 0 || reports[len(reports)-1].Dir != dir {
			reports = append(reports, StoredReports{Dir: dir, Epoch: epoch})
		}
		r := &reports[len(reports)-1]
		if len(r.Objects) == 0 || n.batch != last {
			last = n.batch
			r.Batches++
		}
		r.Bytes += o.Size
		r.Objects = append(r.Objects, o)
		if o.Modified.After(r.Newest) {
			r.Newest = o.Modified
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list losses: %w", err)
	}
	for i := range snapshots {
		l.describe(ctx, &snapshots[i])
	}
	for i := range reports {
		reports[i].Notes = notes[reports[i].Dir]
	}
	plans := map[string]int{} // positions in reports, by the plan hash in the keys of the reports
	for i := range reports {
		r := &reports[i]
		hash := planOfDir(strings.TrimPrefix(r.Dir, room))
		if at, known := plans[hash]; known {
			r.Plan, r.Generation, r.Fault = reports[at].Plan, reports[at].Generation, reports[at].Fault
			continue
		}
		plans[hash] = i
		if r.Plan, r.Fault = l.planOf(ctx, r.Objects[0], hash); r.Fault == nil {
			r.Generation = generationOf(r.Plan)
		}
	}
	return snapshots, reports, ctx.Err()
}

// parseKey parses the key of a report, relative to roomDir.
func parseKey(key string) (dir string, epoch uint64, n name, ok bool) {
	parts := strings.SplitN(key, "/", 4) // log, PLAN, EPOCH, and the report's name
	if len(parts) < 4 || parts[0]+"/" != strings.TrimPrefix(logDir, roomDir) || !isDigest(parts[1]) {
		return "", 0, name{}, false
	}
	epoch, err := strconv.ParseUint(parts[2], 10, 64)
	if err != nil || fmt.Sprintf("%020d", epoch) != parts[2] {
		return "", 0, name{}, false
	}
	n, err = parseName(parts[3])
	return strings.TrimSuffix(key, parts[3]), epoch, n, err == nil
}

// parsePair parses the key of an epoch's marker, relative to roomDir, and returns the directory of
// the epoch's reports.
func parsePair(key string) (dir string, ok bool) {
	parts := strings.Split(key, "/") // epochs, REPORTER, and the epoch's name
	if len(parts) != 3 || parts[0]+"/" != strings.TrimPrefix(pairDir, roomDir) || !isDigest(parts[1]) {
		return "", false
	}
	pair, isBegun := strings.CutSuffix(parts[2], begun)
	if !isBegun {
		pair, ok = strings.CutSuffix(parts[2], frozen)
	}
	plan, epoch, cut := strings.Cut(pair, "-")
	return strings.TrimPrefix(logDir, roomDir) + plan + "/" + epoch + "/", (isBegun || ok) && cut && isDigest(plan)
}

func planOfDir(dir string) string { return strings.Split(dir, "/")[1] }

// describe reads a snapshot's header and plan.
func (l *Log) describe(ctx context.Context, s *StoredSnapshot) {
	h, err := l.headOf(ctx, s.Object)
	if err == nil && s.Size < h.tableOffset() {
		err = corrupt("it is truncated in its plan")
	}
	if s.Fault = err; err != nil {
		return
	}
	plan := make([]byte, h.Plan)
	if s.Fault = l.cfg.Reader.ReadRange(ctx, s.Ref(), snapshotHeader, plan); s.Fault == nil {
		s.Generation, s.Plan, s.Epoch, s.Samples, s.Positions = h.Generation.String(), string(plan), h.Epoch, h.Samples, h.Positions
	}
}

// planOf reads the plan from a report, and checks it against the hash in the report's key.
func (l *Log) planOf(ctx context.Context, o objstore.Object, hash string) (string, error) {
	if o.Size < reportHeader {
		return "", corrupt("invalid size of a report: %d bytes", o.Size)
	}
	b := make([]byte, min(o.Size, reportHeader+maxPlan))
	if err := l.cfg.Reader.ReadRange(ctx, o.Ref(), 0, b); err != nil {
		return "", err
	}
	n := int64(binary.LittleEndian.Uint32(b[40:]))
	if n > int64(len(b))-reportHeader || planHash(string(b[reportHeader:reportHeader+n])) != hash {
		return "", corrupt("%s contains a report of another plan", o.Key)
	}
	return string(b[reportHeader : reportHeader+n]), nil
}

// generationOf returns the generation in a plan's identity, which has the syntax of a URL query.
func generationOf(plan string) string {
	for part := range strings.SplitSeq(plan, "&") {
		if g, ok := strings.CutPrefix(part, "generation="); ok && isDigest(g) {
			return g
		}
	}
	return ""
}
