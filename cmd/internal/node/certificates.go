package node

import (
	"context"
	"time"

	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/certs"
)

const (
	expirySoon = 7 * 24 * time.Hour
	expiryLook = time.Hour
)

// certificate is a certificate of this gateway. The operator renews it.
type certificate struct {
	name string // prefix of its flags and metrics: "tls" or "peer"
	file string
	*certs.Files
}

// openTLS reads the certificate of the data port and of the admin port.
func (s *Node) openTLS() error {
	c := s.cfg
	if c.TLSCert == "" {
		return nil
	}
	port, err := certs.NewPort(certs.Config{Cert: c.TLSCert, Key: c.TLSKey, CA: c.ClientCA, Changed: s.certificateChanged("tls")})
	if err != nil {
		return settingError("tls-cert", err)
	}
	s.tls = port.Server()
	s.certificates = append(s.certificates, certificate{"tls", c.TLSCert, port.Files})
	return nil
}

func (s *Node) certificateChanged(name string) func(error) {
	return func(err error) {
		if err != nil {
			s.log.Warn().Err(err).Str("certificate", name).Msg("changed certificate files have errors; the old version stays in use")
			return
		}
		s.log.Info().Str("certificate", name).Msg("certificate files reloaded")
	}
}

// watchExpiry logs a warning before certificates expire. Without it operators would notice late,
// because open connections outlive the certificate and only new ones fail.
func (s *Node) watchExpiry(ctx context.Context) {
	if len(s.certificates) == 0 {
		return
	}
	tick := time.Tick(expiryLook)
	for {
		for _, c := range s.certificates {
			if end := c.Expires(); time.Until(end) < expirySoon {
				s.log.Warn().Str("certificate", c.name).Str("file", c.file).Time("expires", end).
					Msg("the certificate expires soon or has expired: replace its files; no restart is required")
			}
		}
		select {
		case <-tick:
		case <-ctx.Done():
			return
		}
	}
}

// certificateStats returns the expiry of the certificates, and whether changed files were rejected.
func (s *Node) certificateStats() (out []gateway.Stat) {
	for _, c := range s.certificates {
		left, refused := time.Until(c.Expires()).Seconds(), flag(c.Fault() != nil)
		if c.name == "tls" {
			out = append(out,
				gateway.Stat{Name: "tls_certificate_seconds", Help: "Time until the certificate of the data and admin ports expires; alert below one week.", Value: left},
				gateway.Stat{Name: "tls_certificate_refused", Help: "1 while new certificate files are invalid and the previous certificate stays in use; the log has the reason.", Value: refused},
			)
			continue
		}
		out = append(out,
			gateway.Stat{Name: "peer_certificate_seconds", Help: "Time until this gateway's peer certificate expires; alert below one week.", Value: left},
			gateway.Stat{Name: "peer_certificate_refused", Help: "1 while new peer certificate files are invalid and the previous certificate stays in use; the log has the reason.", Value: refused},
		)
	}
	return out
}
