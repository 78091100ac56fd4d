package node

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/cluster/discovery"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/gateway/audit"
	"github.com/millrace-data/millrace/gateway/auth"
	"github.com/millrace-data/millrace/gateway/origin"
)

// AccessConfig defines the rights of clients. The zero value grants the right read to all clients
// on this machine.
type AccessConfig struct {
	Access string       // file of clients, their rights and limits; "": requests need no credentials
	Allow  []auth.Right // without Access: the rights of all clients; none: read
	origin.Policy
	AuditLog       string // a file, or "stderr"; "": no audit log
	InsecureNoAuth bool   // without Access: other machines can use the data port
	InsecureAdmin  bool   // without Access: other machines can read statistics and profiles
}

// openAccess reads the access file and opens the audit log, if they are configured.
func (s *Node) openAccess(ctx context.Context, c *gateway.Config) (err error) {
	access := &s.cfg.AccessConfig
	access.LocalOnly = access.Access == "" && !access.InsecureNoAuth
	c.Origin = &access.Policy
	if access.Access == "" {
		c.Allow = s.allowed()
	} else {
		c.Access, err = auth.Open(auth.Config{File: access.Access, Changed: s.accessChanged, Keys: s.issuerKeys})
		if err != nil {
			return settingError("access", err)
		}
		s.guard = c.Access
		s.guard.FetchKeys(ctx) // so that the first requests with JWTs find the keys
	}
	if access.AuditLog == "" || s.cfg.Check {
		return nil
	}
	if s.audit, err = audit.Open(access.AuditLog); err != nil {
		return settingError("audit-log", err)
	}
	c.Audit = s.audit
	s.atEnd(s.audit.Close, zerolog.ErrorLevel, "audit log lines lost")
	return nil
}

// allowed returns the rights of all clients without an access file. They include admin if only this
// machine can reach the port with the statistics, or with InsecureAdmin. At a Unix socket, only
// this user may be able to reach it. That port is the admin port, or the data port if there is no
// admin port.
func (s *Node) allowed() []auth.Right {
	c := s.cfg
	rights := slices.Clone(c.Allow)
	if len(rights) == 0 {
		rights = []auth.Right{auth.Read}
	}
	at := c.AdminListen
	if at == "" {
		at = c.Listen
	}
	if c.InsecureAdmin || c.Bound != nil || Loopback(at) && (Private(c.SocketMode) || !hasSocket(at)) {
		rights = append(rights, auth.Admin)
	}
	return rights
}

// Loopback reports whether only this machine can reach the addresses of a port.
func Loopback(list string) bool {
	return !slices.ContainsFunc(Addresses(list), func(address string) bool {
		host, _, err := net.SplitHostPort(address)
		return SocketOf(address) == "" && (err != nil || !discovery.Loopback(host))
	})
}

func (s *Node) accessChanged(err error) {
	if err != nil {
		s.log.Warn().Err(err).Msg("the changed access file has errors; the old version stays in use")
		return
	}
	s.log.Info().Msg("access file reloaded")
}

// issuerKeys logs the result of a request for a JWT issuer's keys.
func (s *Node) issuerKeys(issuer string, err error) {
	if err != nil {
		s.log.Warn().Err(err).Str("issuer", issuer).
			Msg("fetching the issuer's keys failed; keys from the last 24 h stay in use, and without any its JWTs are rejected")
		return
	}
	s.log.Info().Str("issuer", issuer).Msg("issuer keys fetched")
}

// accessStats returns metrics of the access file.
func (s *Node) accessStats() []gateway.Stat {
	if s.guard == nil {
		return nil
	}
	t := s.guard.Stats()
	failures, keyless := 0.0, 0.0
	for _, is := range t.Issuers {
		failures += float64(is.Failures)
		if is.Keys == 0 {
			keyless++
		}
	}
	return []gateway.Stat{
		{Name: "access_tokens", Help: "Tokens in the access file.", Value: float64(t.Tokens)},
		{Name: "access_age_seconds", Help: "Time since the current version of the access file came into use.", Value: time.Since(t.Loaded).Seconds()},
		{Name: "access_refused", Help: "1 while the access file has errors and its previous version stays in use; the log lists the errors.", Value: flag(!t.FileOK)},
		{Name: "access_key_failures_total", Help: "Failed fetches of an issuer's keys; the log has the reason.", Value: failures},
		{Name: "access_issuers_without_keys", Help: "Issuers whose JWTs are refused because their keys are unknown.", Value: keyless},
	}
}
