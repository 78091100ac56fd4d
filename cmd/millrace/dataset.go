package main

import (
	"context"
	"errors"
	"fmt"
	"github.com/millrace-data/millrace/internal/cli"
	"io"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/objstore/dirstore"
	"github.com/millrace-data/millrace/s3backend"
)

// location is where a dataset's shards lie, and where its index lies.
type location struct {
	name   string // as served
	bucket string // of s3://bucket/prefix; empty: a directory
	prefix string // empty, or ends in a slash
	dir    string
	links  bool      // links that lead out of the directory are followed
	index  *location // where the index lies; nil: beside the shards
}

// ofIndex is where the index lies, and all that is kept beside it: losses, subsets, quarantines.
func (l location) ofIndex() location {
	if l.index == nil {
		return l
	}
	return *l.index
}

// address is what a command line says of the dataset: the address of the shards, and its options.
func (l location) address() string {
	s := l.String()
	if l.links {
		s += "," + linksOption + followLinks
	}
	if l.index != nil {
		s += "," + indexOption + l.index.String()
	}
	return s
}

// String is the address of the shards.
func (l location) String() string {
	if l.bucket != "" {
		return "s3://" + l.bucket + "/" + strings.TrimSuffix(l.prefix, "/")
	}
	return "file://" + filepath.ToSlash(l.dir)
}

var (
	validName   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	validBucket = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
)

// Options stand behind a dataset's address, each after a comma.
const (
	indexOption = "index=" // and the address of the index
	linksOption = "links=" // and followLinks
	followLinks = "follow"
)

func isOption(part string) bool {
	return strings.HasPrefix(part, indexOption) || strings.HasPrefix(part, linksOption)
}

// splitAddresses divides a list of addresses at its commas, but for those before an option.
func splitAddresses(s string) []string {
	var all []string
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		switch {
		case len(all) > 0 && isOption(part):
			all[len(all)-1] += "," + part
		case part != "":
			all = append(all, part)
		}
	}
	return all
}

// cutOptions takes the options from an address. Other commas belong to what they stand in.
func cutOptions(s string) (address string, options []string) {
	address, rest, more := strings.Cut(s, ",")
	for more {
		var part string
		part, rest, more = strings.Cut(rest, ",")
		switch {
		case isOption(part):
			options = append(options, part)
		case len(options) == 0:
			address += "," + part
		default:
			options[len(options)-1] += "," + part
		}
	}
	return address, options
}

// parseDataset reads [name=]s3://bucket/prefix, [name=]file:///dir or a plain directory, and the options behind it.
// Without a name the last element of the path is the name.
func parseDataset(s string) (location, error) {
	address, options := cutOptions(s)
	name, rest, named := strings.Cut(address, "=")
	if !named || strings.ContainsAny(name, "/.:") && !validName.MatchString(name) {
		name, rest, named = "", address, false
	}
	l, err := parseLocation(rest)
	if err != nil {
		return location{}, fmt.Errorf("dataset %q: %w", cli.HideSecrets(s), err)
	}
	l.name = name
	if !named {
		l.name = l.defaultName()
	}
	if !validName.MatchString(l.name) {
		return location{}, fmt.Errorf("dataset %q: name %q: want letters, digits, dot, dash and underscore; give one as NAME=URL", cli.HideSecrets(s), l.name)
	}
	for _, o := range options {
		if err := l.takeOption(o); err != nil {
			return location{}, fmt.Errorf("dataset %q: %w", cli.HideSecrets(s), err)
		}
	}
	return l, nil
}

func (l *location) takeOption(o string) error {
	if url, ok := strings.CutPrefix(o, indexOption); ok {
		if l.index != nil {
			return errors.New("index= is given twice")
		}
		if err := l.putIndex(url); err != nil {
			return fmt.Errorf("index: %w", err)
		}
		return nil
	}
	if o != linksOption+followLinks {
		return fmt.Errorf("%s: want %s%s", o, linksOption, followLinks)
	}
	return l.followLinks()
}

// putIndex says where the index lies. The place of the shards means beside them.
func (l *location) putIndex(url string) error {
	at, err := parseLocation(url)
	if err == nil && at.String() != l.String() {
		l.index = &at
	}
	return err
}

// followLinks has links followed that lead out of the directory.
func (l *location) followLinks() error {
	if l.bucket != "" {
		return fmt.Errorf("%s is no directory: only directories have links to follow", l)
	}
	l.links = true
	return nil
}

// inside says whether a dataset is a directory under, or the same as, the one named.
func (l location) inside(dir string) bool {
	if l.dir == "" {
		return false
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(dir, l.dir)
	return err == nil && filepath.IsLocal(rel)
}

func (l location) defaultName() string {
	if l.bucket == "" {
		return filepath.Base(l.dir)
	}
	if l.prefix == "" {
		return l.bucket
	}
	return path.Base(l.prefix)
}

func parseLocation(s string) (location, error) {
	scheme, _, ok := strings.Cut(s, "://")
	if !ok {
		if s == "" {
			return location{}, errors.New("empty address")
		}
		dir, err := filepath.Abs(s)
		return location{dir: dir}, err
	}
	u, err := url.Parse(s)
	if err != nil {
		return location{}, errors.New("not a URL") // the parser's own words repeat it, secrets and all
	}
	if u.User != nil {
		return location{}, errors.New("credentials do not belong in an address; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return location{}, errors.New("want no query and no fragment")
	}
	switch scheme {
	case "s3":
		if !validBucket.MatchString(u.Host) {
			return location{}, fmt.Errorf("bucket %q is no bucket's name", u.Hostname())
		}
		prefix := strings.Trim(u.Path, "/")
		if prefix != "" {
			prefix += "/"
		}
		return location{bucket: u.Host, prefix: prefix}, nil
	case "file":
		if u.Host != "" && u.Host != "localhost" || u.Path == "" {
			return location{}, errors.New("want file:///dir, with three slashes")
		}
		return location{dir: filepath.Clean(filepath.FromSlash(u.Path))}, nil
	}
	return location{}, fmt.Errorf("scheme %q: want s3:// or file://", scheme)
}

// storeFlags say how S3 stores are reached. Credentials come from the AWS chain alone.
type storeFlags struct {
	endpoint  string
	region    string
	pathStyle bool
	caFile    string
	conns     int
}

func (s *storeFlags) define(f *cli.Flags) {
	f.Text(&s.endpoint, "s3-endpoint", "", "`URL` of the S3 service (default AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, then AWS)")
	f.Text(&s.region, "s3-region", "", "`REGION` of the bucket (default AWS_REGION)")
	f.Flag(&s.pathStyle, "s3-path-style", "address buckets in the path, not in the host name")
	f.Text(&s.caFile, "s3-ca-file", "", "PEM `FILE` with the authorities to trust for the S3 service")
	f.Number(&s.conns, "s3-max-conns", 0, "`N` connections to the S3 service at most (default chosen by the backend)")
}

// check finds faults that need no connection.
func (s *storeFlags) check(f *cli.Flags) {
	if s.endpoint == "" {
		return
	}
	u, err := url.Parse(s.endpoint)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
		f.Fault("--s3-endpoint: want http://host:port or https://host:port, without credentials")
	}
}

// open returns the store of a location, and what closes it. A directory is made if create is set.
func (s *storeFlags) open(l location, create bool) (objstore.Store, func(), error) {
	if l.bucket != "" {
		st, err := s3backend.New(s3backend.Config{
			Bucket: l.bucket, Endpoint: s.endpoint, Region: s.region, PathStyle: s.pathStyle, CAFile: s.caFile, MaxConns: s.conns,
		})
		if err != nil {
			return nil, nil, fmt.Errorf("open %s: %w", l, err)
		}
		return st, closer(st), nil
	}
	open := dirstore.New
	switch {
	case create:
		open = dirstore.Create
	case l.links:
		open = dirstore.Follow
	}
	st, err := open(l.dir)
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", l, err)
	}
	return st, closer(st), nil
}

// closer closes a store that has something to close.
func closer(st objstore.Store) func() {
	return func() {
		if c, ok := st.(io.Closer); ok {
			_ = c.Close() // nothing was written that Close could lose
		}
	}
}

// one parses the single dataset of a command and notes a fault.
func one(f *cli.Flags, arg string) location {
	l, err := parseDataset(arg)
	if err != nil {
		f.Fault("%w", err)
	}
	return l
}

// with opens the store of a location for the time of body.
func (s *storeFlags) with(ctx context.Context, l location, create bool, body func(context.Context, objstore.Store) error) error {
	st, done, err := s.open(l, create)
	if err != nil {
		return err
	}
	defer done()
	return body(ctx, st)
}
