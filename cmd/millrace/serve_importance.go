package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/millrace-data/millrace/importance"
)

// losses opens the log of reported losses of a dataset. Reports that an earlier run kept, since the bucket took no writes, are sent
// once the server runs, if it takes them: beside requests, for there may be millions. With --check the local log is left alone, since
// a gateway may be using it.
func (s *server) losses(d opened) (*importance.Log, error) {
	at := d.loc.ofIndex()
	cfg := importance.Config{
		Reader: d.home, Writer: d.home, Prefix: at.prefix, Location: at.String(), CacheDir: s.cfg.indexDir,
	}
	if s.cfg.lossLog != "" && !s.cfg.check {
		cfg.Dir = filepath.Join(s.cfg.lossLog, d.loc.name)
	}
	l, err := importance.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("dataset %s: --loss-log: %w", d.loc.name, err)
	}
	s.closers = append(s.closers, func() {
		if err := l.Close(); err != nil {
			s.log.Warn().Str("dataset", d.loc.name).Err(err).Msg("close the log of losses")
		}
	})
	s.senders = append(s.senders, func(ctx context.Context) { s.sendLosses(ctx, d.loc.name, l) })
	return l, nil
}

// sendLosses sends what an earlier run kept.
func (s *server) sendLosses(ctx context.Context, dataset string, l *importance.Log) {
	done, err := l.Flush(ctx)
	switch {
	case err != nil:
		s.log.Warn().Str("dataset", dataset).Err(err).Msg("reported losses still wait in the local log")
	case done != importance.Flushed{}:
		s.log.Info().Str("dataset", dataset).Int("sent", done.Sent).Int("conflicts", done.Conflicts).Int64("lost_bytes", done.Lost).
			Msg("reported losses sent from the local log")
	}
}
