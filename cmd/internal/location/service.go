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

// Service has the connection parameters of an address's S3 service. The AWS environment variables
// set the missing ones. It refers to credentials by name, and never contains any.
type Service struct {
	Endpoint  string // URL of the service
	Region    string // region of the bucket
	Profile   string // profile of the AWS shared files with the credentials; "": the AWS credential chain
	PathStyle Style
	CAFile    string // PEM file with trusted CAs in addition to the system's
	Bandwidth int64  // maximum bytes per second of one dataset's reads from the store; 0: no limit
	MaxConns  int    // maximum connections to the bucket; 0: the backend's default
}

// Style is the position of the bucket's name in requests.
type Style uint8

// Styles of requests.
const (
	StyleUnset Style = iota // StyleAuto
	StylePath               // in the path
	StyleAuto               // in the host name at services known to support it, else in the path
)

// Names of the parameters of an address, in the order of printing.
const (
	endpointName  = "endpoint"
	regionName    = "region"
	profileName   = "profile"
	pathStyleName = "path_style"
	caFileName    = "ca_file"
	bandwidthName = "bandwidth"
	maxConnsName  = "max_conns"
)

// Parameters returns the names that Location.Set accepts.
func Parameters() []string {
	return []string{endpointName, regionName, profileName, pathStyleName, caFileName, bandwidthName, maxConnsName}
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
	switch {
	case !slices.Contains(Parameters(), name) && holdsSecret(name):
		return fmt.Errorf("parameter %s: credentials do not belong in an address; put them into a profile of the AWS shared files, and set profile=NAME", shown(name))
	case !slices.Contains(Parameters(), name):
		return fmt.Errorf("parameter %s: must be one of %s", shown(name), strings.Join(Parameters(), ", "))
	case l.Bucket == "":
		return fmt.Errorf("%s: only addresses of buckets accept it, and %s is a directory", name, l)
	case value == "":
		return fmt.Errorf("%s: must have a value", name)
	case l.Service.text(name) != "":
		return fmt.Errorf("%s is given twice", name)
	}
	if err := l.Service.set(name, value); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (s *Service) set(name, value string) (err error) {
	switch name {
	case endpointName:
		s.Endpoint, err = value, CheckEndpoint(value)
	case regionName:
		if s.Region = value; !validRegion.MatchString(value) {
			err = errors.New("must be a name such as eu-central-1")
		}
	case profileName:
		if s.Profile = value; !validProfile(value) {
			err = errors.New("must be a profile of the AWS configuration files")
		}
	case pathStyleName:
		s.PathStyle, err = parseStyle(value)
	case caFileName:
		s.CAFile = value
	case bandwidthName:
		s.Bandwidth, err = parseBandwidth(value)
	case maxConnsName:
		s.MaxConns, err = parseMaxConns(value)
	}
	return err
}

// text returns the value of a parameter in an address, "" if it is not set.
func (s Service) text(name string) string {
	switch name {
	case endpointName:
		return s.Endpoint
	case regionName:
		return s.Region
	case profileName:
		return s.Profile
	case pathStyleName:
		return [...]string{StyleUnset: "", StylePath: "true", StyleAuto: "false"}[s.PathStyle]
	case caFileName:
		return s.CAFile
	case maxConnsName:
		if s.MaxConns > 0 {
			return strconv.Itoa(s.MaxConns)
		}
		return ""
	}
	return formatBandwidth(s.Bandwidth)
}

// query returns the query of an address: a question mark and the parameters, or "" without any.
func (s Service) query() string {
	var q strings.Builder
	for _, name := range Parameters() {
		value := s.text(name)
		if value == "" {
			continue
		}
		if q.Len() == 0 {
			q.WriteByte('?')
		} else {
			q.WriteByte('&')
		}
		q.WriteString(name + "=" + escapeValue(value))
	}
	return q.String()
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
			return fmt.Errorf("parameters after ? must be NAME=VALUE, of %s", strings.Join(Parameters(), ", "))
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
		} else if !slices.Contains(Parameters(), name) || strings.ContainsRune(value, '@') || strings.Contains(value, "%40") {
			parts[i] = shown(name) + "=***"
		} else if _, next, ok := strings.Cut(value, "?"); ok { // the query of the index's address, after a comma
			parts[i] = strings.TrimSuffix(part, next) + strings.TrimPrefix(hideParameters("?"+next), "?")
		}
	}
	return s[:start+1] + strings.Join(parts, "&")
}

// CheckEndpoint checks the URL of a service. Its error does not repeat the URL.
func CheckEndpoint(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("must be http://host:port or https://host:port, without credentials")
	}
	return nil
}

func parseStyle(s string) (Style, error) {
	switch s {
	case "true":
		return StylePath, nil
	case "false":
		return StyleAuto, nil
	}
	return StyleUnset, errors.New("must be true or false")
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

// formatBandwidth prints a limit in the unit with the smallest whole number, so that parseBandwidth returns it exactly.
func formatBandwidth(n int64) string {
	if n == 0 {
		return ""
	}
	least, name := n, ""
	for unit, size := range map[string]int64{"kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40} {
		if n%size == 0 && n/size < least {
			least, name = n/size, unit
		}
	}
	return strconv.FormatInt(least, 10) + name
}
