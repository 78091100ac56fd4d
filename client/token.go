package client

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Variables of the environment, for what Config leaves open.
const (
	tokenVariable     = "MILLRACE_TOKEN"
	tokenFileVariable = "MILLRACE_TOKEN_FILE"
	plainVariable     = "MILLRACE_INSECURE_PLAIN_HTTP"
)

// maxToken bounds a token, in bytes: HTTP servers refuse longer headers.
const maxToken = 64 << 10

// tokenForm is the form of the tokens that `millrace token` prints.
var tokenForm = regexp.MustCompile(`mr_[A-Za-z0-9_-]{43}`)

// tokenSource has the token that requests carry. A nil source has none.
type tokenSource struct {
	read func() (string, error) // its error names the place of the token, never the token

	mu   sync.Mutex
	text string // guarded by mu
}

// tokenSetting is one way to give the token.
type tokenSetting struct {
	name, value string
	given       bool
}

func variable(name string) tokenSetting {
	value, given := os.LookupEnv(name)
	return tokenSetting{name, value, given}
}

// newTokenSource reads the token for the first time: Config goes before the environment. It returns nil if neither
// gives one.
func newTokenSource(cfg Config) (*tokenSource, error) {
	token, file := tokenSetting{"Token", cfg.Token, cfg.Token != ""}, tokenSetting{"TokenFile", cfg.TokenFile, cfg.TokenFile != ""}
	if !token.given && !file.given {
		token, file = variable(tokenVariable), variable(tokenFileVariable)
	}
	t := &tokenSource{}
	switch {
	case token.given && file.given:
		return nil, fmt.Errorf("%s and %s are both given: leave one out", token.name, file.name)
	case token.given:
		t.read = func() (string, error) { return checkToken(token.name, token.value) }
	case file.given && file.value == "":
		return nil, fmt.Errorf("%s names no file", file.name)
	case file.given:
		t.read = func() (string, error) { return readToken(file.value) }
	default:
		return nil, nil
	}
	var err error
	t.text, err = t.read()
	return t, err
}

// checkToken returns a token without the newline at its end.
func checkToken(place, text string) (string, error) {
	text = strings.TrimRight(text, "\r\n")
	invisible := func(r rune) bool { return r <= ' ' || r > '~' }
	switch {
	case text == "":
		return "", fmt.Errorf("%s: the token is empty", place)
	case len(text) > maxToken:
		return "", fmt.Errorf("%s: a token has at most %d bytes", place, maxToken)
	case strings.ContainsFunc(text, invisible):
		return "", fmt.Errorf("%s: a token is one line of visible ASCII characters, without spaces", place)
	}
	return text, nil
}

func readToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxToken+2))
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	return checkToken("token file "+path, string(text))
}

// current returns the token, or "" if there is none.
func (t *tokenSource) current() string {
	if t == nil {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text
}

// renew reads the token again after a gateway has refused one. It returns "" if the token is still the refused one.
func (t *tokenSource) renew(refused string) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text, err := t.read()
	if err != nil {
		return "", err
	}
	t.text = text
	if text == refused {
		return "", nil
	}
	return text, nil
}

// authorize sends a request with the token. If the gateway refuses the token and there is another one by now, it sends the
// request once more.
func (c *Client) authorize(req *http.Request, gw *gateway) (*http.Response, error) {
	token := c.token.current()
	if token == "" {
		return c.cfg.HTTP.Do(req)
	}
	resp, err := c.cfg.HTTP.Do(withToken(req, token))
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	fresh, err := c.token.renew(token)
	if fresh == "" && err == nil {
		return resp, nil
	}
	e := readError(gw.name(), resp) // to its end, so that the connection is kept
	resp.Body.Close()
	if err != nil {
		e.Detail = "the token is refused, and cannot be read again: " + err.Error()
		return nil, e
	}
	return c.cfg.HTTP.Do(withToken(req, fresh))
}

// withToken returns a copy of a request that has not been sent, with its own body.
func withToken(req *http.Request, token string) *http.Request {
	sent := req.Clone(req.Context())
	if req.GetBody != nil {
		sent.Body, _ = req.GetBody() // of a bytes.Reader: never an error
	}
	sent.Header.Set("Authorization", "Bearer "+token)
	return sent
}

// plainAllowed reports whether tokens may travel without TLS to another machine.
func plainAllowed(cfg Config) (bool, error) {
	text, given := os.LookupEnv(plainVariable)
	if cfg.InsecurePlainHTTP || !given {
		return cfg.InsecurePlainHTTP, nil
	}
	allowed, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%s %q: want true or false", plainVariable, text)
	}
	return allowed, nil
}

// refusePlain is the error of a gateway that a token would reach without TLS, over a network.
func refusePlain(base *url.URL) error {
	host := base.Hostname()
	address, err := netip.ParseAddr(host)
	if base.Scheme != "http" || host == "localhost" || err == nil && address.Unmap().IsLoopback() {
		return nil
	}
	return fmt.Errorf("gateway %s: a token is not sent over a network without TLS: give an https:// address, or set %s=true (Config.InsecurePlainHTTP) "+
		"where the network encrypts by itself", base, plainVariable)
}

// errSecretInAddress says nothing of the address.
var errSecretInAddress = errors.New("gateway: want http://HOST:PORT or HOST:PORT, without a user, password or token, which would end in logs: " +
	"give a token by " + tokenFileVariable + " or " + tokenVariable)
