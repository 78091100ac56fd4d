package node

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/millrace-data/millrace/importance"
	"github.com/millrace-data/millrace/internal/location"
)

// losses opens the log of reported losses of a dataset. Reports that an earlier run kept, since the bucket took no writes, are sent
// once the server runs, if it takes them: beside requests, for there may be millions. With --check the local log is left alone, since
// a gateway may be using it.
func (s *Node) losses(d location.Opened) (*importance.Log, error) {
	at := d.Loc.OfIndex()
	cfg := importance.Config{
		Reader: d.Home, Writer: d.Home, Prefix: at.Prefix, Location: at.Plain(), CacheDir: s.cfg.IndexDir,
	}
	if s.cfg.LossLog != "" && !s.cfg.Check {
		cfg.Dir = filepath.Join(s.cfg.LossLog, d.Loc.Name)
	}
	l, err := importance.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("dataset %s: --loss-log: %w", d.Loc.Name, err)
	}
	s.closers = append(s.closers, func() {
		if err := l.Close(); err != nil {
			s.log.Warn().Str("dataset", d.Loc.Name).Err(err).Msg("close the log of losses")
		}
	})
	s.senders = append(s.senders, func(ctx context.Context) { s.sendLosses(ctx, d.Loc.Name, l) })
	return l, nil
}

// sendLosses sends what an earlier run kept.
func (s *Node) sendLosses(ctx context.Context, dataset string, l *importance.Log) {
	done, err := l.Flush(ctx)
	switch {
	case err != nil:
		s.log.Warn().Str("dataset", dataset).Err(err).Msg("reported losses still wait in the local log")
	case done != importance.Flushed{}:
		s.log.Info().Str("dataset", dataset).Int("sent", done.Sent).Int("conflicts", done.Conflicts).Int64("lost_bytes", done.Lost).
			Msg("reported losses sent from the local log")
	}
}
