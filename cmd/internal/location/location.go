package location

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/millrace-data/millrace/chunkindex"
)

// Location is the parsed address of a dataset's shards and index.
type Location struct {
	Name      string  // name under which a gateway serves it
	Bucket    string  // bucket of s3://bucket/prefix; empty: a directory
	Prefix    string  // empty, or ends in a slash
	Service   Service // S3 service of the bucket
	Dir       string
	Links     bool      // follow links that lead out of the directory
	IndexName string    // name of one of several indexes; empty: the default index
	Index     *Location // location of the index, with its own service; nil: next to the shards
	cached    bool      // the index is in this user's cache, by default and not by the address
}

// OfIndex is the location of the index, and of the losses, subsets and quarantines stored with it.
func (l Location) OfIndex() Location {
	if l.Index == nil {
		return l
	}
	at := *l.Index
	at.IndexName = l.IndexName
	return at
}

// Address is the dataset's full address in a command line: the address of the shards, and the options.
func (l Location) Address() string {
	s := l.String()
	if l.Links {
		s += "," + linksOption + followLinks
	}
	if l.Index != nil {
		s += "," + indexOption + l.Index.String()
	}
	return s
}

// String is the address of the shards with the name of the index, as in a command line.
func (l Location) String() string {
	if l.IndexName != "" {
		return l.Shards() + "#" + l.IndexName
	}
	return l.Shards()
}

// Shards is the address of the shards without the name of an index.
func (l Location) Shards() string {
	if l.Bucket != "" {
		return "s3://" + l.Bucket + "/" + strings.TrimSuffix(l.Prefix, "/") + l.Service.query()
	}
	return "file://" + strings.ReplaceAll(filepath.ToSlash(l.Dir), "#", "%23")
}

// Plain is the address of the shards without parameters of the service. It does not change with them.
func (l Location) Plain() string {
	l.Service = Service{}
	return l.Shards()
}

var validBucket = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// Options follow a dataset's address, each after a comma.
const (
	indexOption = "index=" // followed by the address of the index
	linksOption = "links=" // followed by followLinks
	followLinks = "follow"
)

func isOption(part string) bool {
	return strings.HasPrefix(part, indexOption) || strings.HasPrefix(part, linksOption)
}

// Split splits a list of addresses at its commas. A comma before an option does not end an address.
func Split(s string) []string {
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

// cutOptions separates an address from its options. Any other comma is part of the address or of an
// option's value.
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

// Parse parses [name=]s3://bucket/prefix, [name=]file:///dir or a plain directory, and the options
// after it. The default name is the last element of the path.
func Parse(s string) (Location, error) {
	where, options := cutOptions(s)
	name, rest, named := strings.Cut(where, "=")
	if !named || strings.ContainsAny(name, "/.:") && !chunkindex.ValidName(name) {
		name, rest, named = "", where, false
	}
	l, err := ParseAddress(rest)
	if err != nil {
		return Location{}, fmt.Errorf("dataset %q: %w", HideSecrets(s), err)
	}
	l.Name = name
	if !named {
		l.Name = l.defaultName()
	}
	if !chunkindex.ValidName(l.Name) {
		return Location{}, fmt.Errorf("dataset %q: name %q: must be letters, digits, dot, dash and underscore; set one as NAME=URL", HideSecrets(s), l.Name)
	}
	for _, o := range options {
		name, value, _ := strings.Cut(o, "=")
		if err := l.SetOption(name, value); err != nil {
			return Location{}, fmt.Errorf("dataset %q: %w", HideSecrets(s), err)
		}
	}
	if at, ok, _ := l.Apart(); ok && hasState(at.Index.Dir) {
		l = at
	}
	return l, nil
}

// SetOption sets an option of an address by name: index, links or a parameter of its service.
func (l *Location) SetOption(name, value string) error {
	switch {
	case name+"=" == indexOption && l.Index != nil:
		return errors.New("index= is given twice")
	case name+"=" == indexOption:
		if err := l.PutIndex(value); err != nil {
			return fmt.Errorf("index: %w", err)
		}
		return nil
	case name+"=" == linksOption && value != followLinks:
		return errors.New("links: must be follow")
	case name+"=" == linksOption:
		return l.FollowLinks()
	}
	return l.Set(name, value)
}

// PutIndex sets the address of the index. The address of the shards stands for an index next to the
// shards.
func (l *Location) PutIndex(url string) error {
	at, err := ParseAddress(url)
	switch {
	case err != nil:
		return err
	case at.IndexName != "":
		return fmt.Errorf("#%s: the name of an index follows the address of the shards, as in %s#%s", at.IndexName, l.Shards(), at.IndexName)
	case at.String() != l.Shards():
		l.Index = &at
	}
	return nil
}

// PutName sets the name of the index, if there are several.
func (l *Location) PutName(name string) error {
	switch {
	case !chunkindex.ValidIndexName(name):
		return errors.New("must be 1 to 64 lower-case letters, digits, dots, dashes and underscores")
	case l.IndexName != "" && l.IndexName != name:
		return fmt.Errorf("the address already names the index #%s", l.IndexName)
	}
	l.IndexName = name
	return nil
}

// FollowLinks allows links that lead out of the directory.
func (l *Location) FollowLinks() error {
	if l.Bucket != "" {
		return fmt.Errorf("%s is not a directory: only directories have links to follow", l)
	}
	l.Links = true
	return nil
}

// Inside reports whether the dataset's directory is dir or below it.
func (l Location) Inside(dir string) bool {
	if l.Dir == "" {
		return false
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(dir, l.Dir)
	return err == nil && filepath.IsLocal(rel)
}

// defaultName is the last element of the path, with a dash and the name of the index, if any.
func (l Location) defaultName() string {
	if l.IndexName != "" {
		name := l.IndexName
		l.IndexName = ""
		return l.defaultName() + "-" + name
	}
	if l.Bucket == "" {
		return filepath.Base(l.Dir)
	}
	if l.Prefix == "" {
		return l.Bucket
	}
	return path.Base(l.Prefix)
}

// ParseAddress parses an address without a name and without options.
func ParseAddress(s string) (Location, error) {
	if err := refusePattern(s); err != nil {
		return Location{}, err
	}
	scheme, _, ok := strings.Cut(s, "://")
	if !ok {
		if s == "" {
			return Location{}, errors.New("empty address")
		}
		if rest, one := strings.CutPrefix(s, "s3:/"); one {
			return Location{}, fmt.Errorf("must be s3://%s, with two slashes", HideSecrets(rest))
		}
		return parsePath(s)
	}
	u, err := url.Parse(s)
	if err != nil {
		return Location{}, errors.New("not a URL") // the parser's error repeats the URL with its secrets
	}
	if u.User != nil {
		return Location{}, errors.New("credentials do not belong in an address; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile by profile=NAME")
	}
	name, err := indexName(s)
	if err != nil {
		return Location{}, err
	}
	switch u.Scheme { // lower case
	case "s3":
		if u.Host == "" {
			return Location{}, errors.New("no bucket: must be s3://bucket/prefix")
		}
		if !validBucket.MatchString(u.Host) {
			return Location{}, fmt.Errorf("%q is not a bucket name", u.Hostname())
		}
		prefix := strings.Trim(u.Path, "/")
		if prefix != "" {
			prefix += "/"
		}
		l := Location{Bucket: u.Host, Prefix: prefix, IndexName: name}
		err := l.setQuery(u.RawQuery)
		return l, err
	case "file":
		if u.Host != "" && u.Host != "localhost" || u.Path == "" {
			return Location{}, errors.New("must be file:///dir, with three slashes")
		}
		l := Location{Dir: filepath.Clean(filepath.FromSlash(u.Path)), IndexName: name}
		err := l.setQuery(u.RawQuery)
		return l, err
	}
	return Location{}, fmt.Errorf("scheme %q: must be s3:// or file://", scheme)
}

// parsePath parses a directory and the name of an index after #. If a directory with the whole text
// as its name exists, it takes precedence.
func parsePath(s string) (l Location, err error) {
	if i := strings.LastIndexByte(s, '#'); i >= 0 && chunkindex.ValidIndexName(s[i+1:]) {
		if _, fault := os.Stat(s); fault != nil {
			s, l.IndexName = s[:i], s[i+1:]
		}
	}
	l.Dir, err = filepath.Abs(s)
	return l, err
}

// SplitPattern divides an address with a pattern, such as s3://bucket/p/x-{000..004}.tar, into the
// address of its folder, with parameters, and the pattern. Without a pattern, or if a file has the
// whole text as its name, the pattern is empty.
func SplitPattern(s string) (folder, pattern string) {
	address, query, isURL := strings.Cut(s, "?")
	if _, err := os.Stat(strings.TrimPrefix(s, "file://")); err == nil || !strings.ContainsAny(address, "*{") {
		return s, ""
	}
	folder, _ = path.Split(address[:strings.IndexAny(address, "*{")])
	pattern = address[len(folder):]
	if folder = cmp.Or(folder, "."); isURL {
		folder += "?" + query
	}
	return folder, pattern
}

// refusePattern returns an error for an address with a pattern, which is not a single location.
func refusePattern(s string) error {
	folder, pattern := SplitPattern(s)
	if pattern == "" {
		return nil
	}
	return fmt.Errorf("an address cannot contain a pattern: use %s, and index it with --match '%s'", HideSecrets(folder), pattern)
}

// indexName returns the name of an index at the end of a URL, empty if there is none. Errors do not repeat it, since it may
// be a secret.
func indexName(s string) (string, error) {
	_, name, named := strings.Cut(s, "#")
	if named && !chunkindex.ValidIndexName(name) {
		return "", errors.New("must end with #NAME, the name of an index: 1 to 64 lower-case letters, digits, dots, dashes and underscores")
	}
	return name, nil
}

// HideSecrets removes user information and values of unknown parameters from text that looks like URL or
// NAME=URL. It also handles invalid URLs, such as those with an unescaped password.
func HideSecrets(s string) string {
	before, rest, isURL := strings.Cut(s, "://")
	if !isURL {
		return s
	}
	at := strings.LastIndexByte(rest, '@')
	if at >= 0 && (!strings.Contains(rest[:at], "/") || strings.Contains(rest[:at], ":")) {
		rest = "***" + rest[at:]
	}
	return before + "://" + hideParameters(rest)
}
