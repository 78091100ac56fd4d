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

// Service says how the S3 service of an address is reached. The AWS variables of the environment decide what the address leaves
// out. It names credentials, and never holds any.
type Service struct {
	Endpoint  string // URL of the service
	Region    string // of the bucket
	Profile   string // whose credentials are used, of the shared files of AWS; "": those of the AWS chain
	PathStyle Style
	CAFile    string // PEM file with authorities that are trusted beside the system's
	Bandwidth int64  // bytes per second that reads of one dataset take from the store at most; 0: no limit
	MaxConns  int    // connections to the bucket at most; 0: the backend's choice
}

// Style says whether requests name the bucket in their path.
type Style uint8

// Styles of requests.
const (
	StyleUnset Style = iota // StyleAuto
	StylePath               // in the path
	StyleAuto               // in the host name at services that are known to take it there, else in the path
)

// Names of the parameters of an address, in the order in which they are printed.
const (
	endpointName  = "endpoint"
	regionName    = "region"
	profileName   = "profile"
	pathStyleName = "path_style"
	caFileName    = "ca_file"
	bandwidthName = "bandwidth"
	maxConnsName  = "max_conns"
)

// Parameters returns the names that Location.Set takes.
func Parameters() []string {
	return []string{endpointName, regionName, profileName, pathStyleName, caFileName, bandwidthName, maxConnsName}
}

// minBandwidth is the least limit: with less, a store read of part-size takes longer than four minutes.
const minBandwidth = 64 << 10

var (
	plainName   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,24}$`)
	validRegion = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
)

// maxProfile is the longest name of a profile, in characters.
const maxProfile = 128

// validProfile reports whether a name can be that of a profile in the shared files of AWS. As a regular expression the rule would
// take 2.6 MB, more than all else that a gateway keeps in Go's heap, and each garbage collection would read them.
func validProfile(name string) bool {
	return name != "" && name[0] != ' ' && utf8.RuneCountInString(name) <= maxProfile &&
		!strings.ContainsFunc(name, func(r rune) bool { return strings.ContainsRune(`[]"'`, r) || unicode.Is(unicode.C, r) })
}

// Set sets a parameter of an address by its name, as if it stood in its query.
func (l *Location) Set(name, value string) error {
	switch {
	case !slices.Contains(Parameters(), name) && holdsSecret(name):
		return fmt.Errorf("parameter %s: credentials do not belong in an address; put them into a profile of the shared files of AWS, and name it by profile=NAME", shown(name))
	case !slices.Contains(Parameters(), name):
		return fmt.Errorf("parameter %s: must be one of %s", shown(name), strings.Join(Parameters(), ", "))
	case l.Bucket == "":
		return fmt.Errorf("%s: only addresses of buckets have it, and %s is a directory", name, l)
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

// text returns a parameter as it stands in an address, "" for one that is left out.
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

// query is what stands behind the path of an address: nothing, or a question mark and the parameters.
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

// escapeValue escapes what may not stand in a query or in a list of addresses. Slashes and colons stay, so that people can read a URL.
func escapeValue(s string) string {
	return strings.NewReplacer("%3A", ":", "%2F", "/").Replace(url.QueryEscape(s))
}

// setQuery takes the query of an address. No error repeats a value, for it may be a secret.
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
			return errors.New("a parameter's name is not escaped as in a URL")
		}
		if value, err = url.QueryUnescape(value); err != nil {
			return fmt.Errorf("parameter %s: the value is not escaped as in a URL", shown(name))
		}
		if err := l.Set(name, value); err != nil {
			return err
		}
	}
	return nil
}

// holdsSecret says whether a parameter has the name of a secret, in any of the ways in which tools spell it.
func holdsSecret(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "x-amz-") || slices.ContainsFunc([]string{"key", "secret", "token", "passw", "credential", "signature"},
		func(word string) bool { return strings.Contains(name, word) })
}

// shown is a parameter's name where it is short and plain. Anything else may be a part of a secret.
func shown(name string) string {
	if !plainName.MatchString(name) {
		return "***"
	}
	return name
}

// hideParameters hides the values of all parameters in a URL that are unknown, or hold user information of their own.
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
		} else if _, next, ok := strings.Cut(value, "?"); ok { // of the address of an index, behind a comma
			parts[i] = strings.TrimSuffix(part, next) + strings.TrimPrefix(hideParameters("?"+next), "?")
		}
	}
	return s[:start+1] + strings.Join(parts, "&")
}

// CheckEndpoint says what is wrong with the URL of a service, without repeating it.
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

// formatBandwidth prints a limit in the unit that gives the least number, so that parseBandwidth gives it back exactly.
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
