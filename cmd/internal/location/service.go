package location

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
)

// Service has the connection parameters of an address's S3 service, as text. The AWS environment
// variables set the missing ones. It refers to credentials by name, and never contains any.
type Service struct {
	Endpoint  string // URL of the service
	Region    string // region of the bucket
	Profile   string // profile of the AWS shared files with the credentials; "": the AWS credential chain
	PathStyle string // true: the bucket's name is in the path; else in the host name at services known to support it
	CAFile    string // PEM file with trusted CAs in addition to the system's
	Bandwidth string // maximum bytes per second of one dataset's reads from the store
	MaxConns  string // maximum connections to the bucket; "": the backend's default
}

// parameter is a parameter of an address.
type parameter struct {
	name  string
	field func(*Service) *string
	check func(value string) error
}

// parameters returns the parameters in the order of printing.
func parameters() []parameter {
	return []parameter{
		{"endpoint", func(s *Service) *string { return &s.Endpoint }, checkEndpoint},
		{"region", func(s *Service) *string { return &s.Region }, require(validRegion.MatchString, "must be a name such as eu-central-1")},
		{"profile", func(s *Service) *string { return &s.Profile }, require(validProfile, "must be a profile of the AWS configuration files")},
		{"path_style", func(s *Service) *string { return &s.PathStyle }, require(isStyle, "must be true or false")},
		{"ca_file", func(s *Service) *string { return &s.CAFile }, func(string) error { return nil }},
		{"bandwidth", func(s *Service) *string { return &s.Bandwidth }, func(s string) error { _, err := parseBandwidth(s); return err }},
		{"max_conns", func(s *Service) *string { return &s.MaxConns }, func(s string) error { _, err := parseMaxConns(s); return err }},
	}
}

// require returns a check with a fixed error.
func require(valid func(string) bool, must string) func(string) error {
	return func(value string) error {
		if !valid(value) {
			return errors.New(must)
		}
		return nil
	}
}

func isStyle(s string) bool { return s == "true" || s == "false" }

// find returns the parameter with a name.
func find(name string) (p parameter, known bool) {
	i := slices.IndexFunc(parameters(), func(p parameter) bool { return p.name == name })
	if i < 0 {
		return p, false
	}
	return parameters()[i], true
}

// names lists the names of the parameters.
func names() string {
	var all []string
	for _, p := range parameters() {
		all = append(all, p.name)
	}
	return strings.Join(all, ", ")
}

// Limit returns the bandwidth in bytes per second; 0: no limit.
func (s Service) Limit() int64 {
	n, _ := parseBandwidth(s.Bandwidth) // checked, or ""
	return n
}

// minBandwidth is the lowest limit. Below it, a store read of part-size would take more than four
// minutes.
const minBandwidth = 64 << 10

var (
	plainName   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,24}$`)
	validRegion = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
)

// maxProfile is the longest name of a profile, in characters.
const maxProfile = 128

// validProfile reports whether a name is valid for a profile of the AWS shared files. It uses no
// regular expression: that would take 2.6 MB, more than the rest of a gateway's heap, and each
// garbage collection would scan it.
func validProfile(name string) bool {
	return name != "" && name[0] != ' ' && utf8.RuneCountInString(name) <= maxProfile &&
		!strings.ContainsFunc(name, func(r rune) bool { return strings.ContainsRune(`[]"'`, r) || unicode.Is(unicode.C, r) })
}

// Set sets a parameter of an address by name, like the query of the address.
func (l *Location) Set(name, value string) error {
	p, known := find(name)
	switch {
	case !known && holdsSecret(name):
		return fmt.Errorf("parameter %s: credentials do not belong in an address; put them into a profile of the AWS shared files, and set profile=NAME", shown(name))
	case !known:
		return fmt.Errorf("parameter %s: must be one of %s", shown(name), names())
	case l.Bucket == "":
		return fmt.Errorf("%s: only addresses of buckets accept it, and %s is a directory", name, l)
	case value == "":
		return fmt.Errorf("%s: must have a value", name)
	case *p.field(&l.Service) != "":
		return fmt.Errorf("%s is given twice", name)
	}
	*p.field(&l.Service) = value
	if err := p.check(value); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// query returns the query of an address: a question mark and the parameters, or "" without any.
func (s Service) query() string {
	var set []string
	for _, p := range parameters() {
		if value := *p.field(&s); value != "" {
			set = append(set, p.name+"="+escapeValue(value))
		}
	}
	if set == nil {
		return ""
	}
	return "?" + strings.Join(set, "&")
}

// escapeValue escapes characters that are special in a query or in a list of addresses. Slashes and colons stay unescaped,
// for readable URLs.
func escapeValue(s string) string {
	return strings.NewReplacer("%3A", ":", "%2F", "/").Replace(url.QueryEscape(s))
}

// setQuery sets the parameters of a query. Errors do not repeat a value, since it may be a secret.
func (l *Location) setQuery(query string) error {
	if query == "" {
		return nil
	}
	for part := range strings.SplitSeq(query, "&") {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return fmt.Errorf("parameters after ? must be NAME=VALUE, of %s", names())
		}
		name, err := url.QueryUnescape(name)
		if err != nil {
			return errors.New("invalid URL escape in the name of a parameter")
		}
		if value, err = url.QueryUnescape(value); err != nil {
			return fmt.Errorf("parameter %s: invalid URL escape in the value", shown(name))
		}
		if err := l.Set(name, value); err != nil {
			return err
		}
	}
	return nil
}

// holdsSecret reports whether a parameter name suggests a secret, such as token or x-amz-signature.
func holdsSecret(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "x-amz-") || slices.ContainsFunc([]string{"key", "secret", "token", "passw", "credential", "signature"},
		func(word string) bool { return strings.Contains(name, word) })
}

// shown returns a parameter's name if it is short and plain, otherwise ***, since the name may be
// part of a secret.
func shown(name string) string {
	if !plainName.MatchString(name) {
		return "***"
	}
	return name
}

// hideParameters hides the values of parameters in a URL that are unknown or contain user information.
func hideParameters(s string) string {
	start := strings.IndexByte(s, '?')
	if start < 0 {
		return s
	}
	parts := strings.Split(s[start+1:], "&")
	for i, part := range parts {
		name, value, named := strings.Cut(part, "=")
		if !named {
			parts[i] = "***"
		} else if _, known := find(name); !known || strings.ContainsRune(value, '@') || strings.Contains(value, "%40") {
			parts[i] = shown(name) + "=***"
		} else if _, next, ok := strings.Cut(value, "?"); ok { // the query of the index's address, after a comma
			parts[i] = strings.TrimSuffix(part, next) + strings.TrimPrefix(hideParameters("?"+next), "?")
		}
	}
	return s[:start+1] + strings.Join(parts, "&")
}

// checkEndpoint checks the URL of a service. Its error does not repeat the URL.
func checkEndpoint(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("must be http://host:port or https://host:port, without credentials")
	}
	return nil
}

func parseMaxConns(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return 0, errors.New("must be a whole number from 1 to 65535")
	}
	return int(n), nil
}

func parseBandwidth(s string) (int64, error) {
	n, err := humanize.ParseBytes(strings.TrimSuffix(s, "/s"))
	if err != nil || n > 1<<62 || n < minBandwidth {
		return 0, errors.New("must be bytes per second such as 500MB, at least 64KiB")
	}
	return int64(n), nil
}
