package pack

import (
	"archive/tar"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/naming"
)

const (
	block   = 512
	trailer = 2 * block // two zero blocks end a tar
	// ustarName is the length of the longest name that a plain header without a prefix can
	// hold.
	ustarName = 100
)

// sample contains the files with one key, sorted by name.
type sample struct {
	key     string
	members []file
	length  int64 // length in the shard: headers, contents and padding
}

// shard is one tar object of the plan.
type shard struct {
	name    string
	samples []sample
	length  int64
	stamp   string // hash of names, sizes and modification times; it nearly always differs when contents change
}

// plan describes the complete result of a run before any file is read.
type plan struct {
	shards []shard
	hash   string // hash of everything that determines the shards, except the files' contents
	report Report
}

// flatten replaces all dots of the base name except the last by underscores, so that every reader
// uses the text before the last dot as the key.
func flatten(name string) string {
	base := strings.LastIndexByte(name, '/') + 1
	last := strings.LastIndexByte(name, '.')
	if last < base {
		return name
	}
	return name[:base] + strings.ReplaceAll(name[base:last], ".", "_") + name[last:]
}

func newPlan(files []file, tables []*table, opt Options) (*plan, error) {
	if len(files) == 0 {
		return nil, errors.New("pack: the sources hold no files")
	}
	if opt.Key == KeyPath {
		for i := range files {
			files[i].name = flatten(files[i].name)
		}
	}
	samples, err := group(files)
	if err != nil {
		return nil, err
	}
	p := &plan{report: Report{Extensions: map[string]int{}}}
	for _, f := range files {
		_, ext := naming.Member(f.name)
		p.report.Extensions[ext]++
	}
	for _, s := range samples {
		if len(s.members) == 1 {
			continue
		}
		if opt.Key == KeyPath {
			return nil, fmt.Errorf("pack: %q and %q would be one sample, %q: with --sample-key %s, names must differ before the last dot: move the files to different directories, or use --sample-key %s to make them one sample",
				s.members[0].where(), s.members[1].where(), s.key, KeyPath, KeyGroup)
		}
		if p.report.MultiMember++; p.report.Example == "" {
			p.report.Example = s.key
		}
	}
	if opt.Label == LabelDirectory {
		if p.report.Classes, err = label(samples); err != nil {
			return nil, err
		}
	}
	if len(tables) > 0 {
		if p.report.WithoutRow, p.report.WithoutRowOf, err = join(samples, tables); err != nil {
			return nil, err
		}
		for _, t := range tables {
			p.report.Tables = append(p.report.Tables, t.report)
		}
	}
	if err := p.cut(samples, opt.ShardSize); err != nil {
		return nil, err
	}
	p.report.Files, p.report.Samples, p.report.Shards = len(files), len(samples), len(p.shards)
	p.hash = p.digest(opt)
	return p, nil
}

// group combines files into samples, both in byte order. It rejects members that a reader could not
// distinguish.
func group(files []file) ([]sample, error) {
	index := make(map[string]int, len(files))
	var samples []sample
	for _, f := range files {
		key, _ := naming.Member(f.name)
		i, ok := index[key]
		if !ok {
			i = len(samples)
			index[key] = i
			samples = append(samples, sample{key: key})
		}
		samples[i].members = append(samples[i].members, f)
	}
	slices.SortFunc(samples, func(a, b sample) int { return cmp.Compare(a.key, b.key) })
	for _, s := range samples {
		slices.SortFunc(s.members, byName)
		for i := 1; i < len(s.members); i++ {
			a, b := s.members[i-1], s.members[i]
			if a.name == b.name {
				return nil, fmt.Errorf("pack: duplicate member %q: %q and %q", a.name, a.where(), b.where())
			}
			_, x := naming.Member(a.name)
			if _, y := naming.Member(b.name); x == y { // "a" and "a."
				return nil, fmt.Errorf("pack: duplicate extension %q in sample %q: %q and %q", x, s.key, a.where(), b.where())
			}
		}
	}
	return samples, nil
}

// cut fills shards in order, each up to the target length. A shard with a single sample may be
// longer.
func (p *plan) cut(samples []sample, target int64) error {
	var now shard
	flush := func() {
		if len(now.samples) > 0 {
			now.name = fmt.Sprintf("shard-%06d.tar", len(p.shards))
			now.length += trailer
			now.stamp = stamp(now.samples)
			p.report.Bytes += now.length
			p.shards = append(p.shards, now)
		}
		now = shard{}
	}
	for i := range samples {
		s := &samples[i]
		for j := range s.members {
			n, err := headerLength(&s.members[j])
			if err != nil {
				return err
			}
			s.length += n + pad(s.members[j].size())
		}
		if s.length > format.MaxSample {
			return s.tooLong()
		}
		if now.length+s.length+trailer > target {
			flush()
		}
		now.samples = append(now.samples, *s)
		now.length += s.length
	}
	flush()
	return nil
}

// tooLong returns an error for a sample that no index accepts. It is called before anything is
// stored.
func (s *sample) tooLong() error {
	first, n := s.members[0].where(), len(s.members)
	if n == 1 {
		return fmt.Errorf("pack: %q would be a sample of %d bytes: at most %d can be indexed", first, s.length, format.MaxSample)
	}
	return fmt.Errorf("pack: %q and the other files with the key %q, %d in total, would be a sample of %d bytes: at most %d can be indexed: use --sample-key %s to make each file a sample",
		first, s.key, n, s.length, format.MaxSample, KeyPath)
}

// pad rounds n up to whole blocks.
func pad(n int64) int64 { return (n + block - 1) / block * block }

// header returns the header of a file. It does not depend on the file's owner, mode and time.
func header(f *file) *tar.Header {
	return &tar.Header{
		Typeflag: tar.TypeReg,
		Name:     f.name,
		Size:     f.size(),
		Mode:     0o644,
		ModTime:  time.Unix(0, 0),
		// Without a Format, the writer uses USTAR if the name fits, and PAX otherwise.
		// Every size fits in USTAR.
	}
}

// headerLength returns the length of the header, including PAX records.
func headerLength(f *file) (int64, error) {
	if len(f.name) <= ustarName && utf8.RuneCountInString(f.name) == len(f.name) {
		return block, nil
	}
	var n counter
	if err := tar.NewWriter(&n).WriteHeader(header(f)); err != nil {
		return 0, fmt.Errorf("pack: name %q: %w", f.where(), err)
	}
	return int64(n), nil
}

// counter counts the bytes written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// digest returns the hash that names the plan. It excludes contents and times, so that a run that
// resumes after a kill has the same plan even if files were touched meanwhile.
func (p *plan) digest(opt Options) string {
	h := sha256.New()
	fmt.Fprintf(h, "millrace pack 1\n%s\n%d\n", opt.Key, opt.ShardSize)
	for _, s := range p.shards {
		for _, m := range s.samples {
			writeMembers(h, m.members, false)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func stamp(samples []sample) string {
	h := sha256.New()
	for _, s := range samples {
		writeMembers(h, s.members, true)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func writeMembers(w io.Writer, members []file, times bool) {
	for _, f := range members {
		var ns int64
		if times && f.text == "" {
			ns = f.info.ModTime().UnixNano()
		}
		fmt.Fprintf(w, "%d:%s %d %d\n", len(f.name), f.name, f.size(), ns)
		if f.text != "" {
			fmt.Fprintf(w, "%s\n", f.text)
		}
	}
}
