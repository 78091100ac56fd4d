package node

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/millrace-data/millrace/chunkindex/importance"
	"github.com/millrace-data/millrace/cmd/internal/location"
)

// openLosses opens the log of a dataset's reported losses. If an open place has the same log, it
// shares that place's local log. With --check it does not open the local log, since a running
// gateway may use it.
func (s *Node) openLosses(d location.Dataset, twin *place) (*importance.Log, error) {
	at := d.Loc.OfIndex()
	cfg := importance.Config{
		Reader: d.Home, Writer: d.Home, Prefix: at.Prefix, Location: at.Plain(), CacheDir: s.cfg.IndexDir,
	}
	if s.cfg.LossLog != "" && !s.cfg.Check {
		cfg.Dir = filepath.Join(s.cfg.LossLog, d.Loc.Name)
		if twin != nil {
			cfg.Beside = twin.losses
		}
	}
	l, err := importance.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("dataset %s: loss-log: %w", d.Loc.Name, err)
	}
	return l, nil
}

// sendLosses sends the reports that an earlier process kept because the bucket rejected writes. It
// runs in the background, since there may be millions.
func (s *Node) sendLosses(ctx context.Context, dataset string, l *importance.Log) {
	done, err := l.Flush(ctx)
	switch {
	case err != nil:
		s.log.Warn().Str("dataset", dataset).Err(err).Msg("reported losses stay in the local log")
	case done != importance.FlushReport{}:
		s.log.Info().Str("dataset", dataset).Int("sent", done.Sent).Int("conflicts", done.Conflicts).Int64("lost_bytes", done.Lost).
			Msg("reported losses sent from the local log")
	}
}
