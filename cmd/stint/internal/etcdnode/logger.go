package etcdnode

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// etcdLog is what etcd logs to. It is quiet: what matters is told by the node in
// its own words. But it keeps the last complaint, which is often the reason why
// nothing happens, and it hears of every end that etcd makes with itself:
// its Fatal would end the process without a word, its Panic with a page of them.
type etcdLog struct {
	to   *slog.Logger // nil: quiet
	dead func(error)  // is called once, from the goroutine that gives up

	mu   sync.Mutex
	last string
	once sync.Once
}

func (l *etcdLog) logger() *zap.Logger {
	return zap.New(l, zap.WithFatalHook(l), zap.WithPanicHook(l))
}

// OnWrite is called in place of the end of the process. It must not return: who
// called it counts on being gone. Nothing of the node can be trusted any more;
// the process is expected to end soon.
func (l *etcdLog) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	l.once.Do(func() { l.dead(entryError{e.Message, fieldError(fields)}) })
	select {}
}

// lastComplaint is etcd's last warning, or "".
func (l *etcdLog) lastComplaint() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Enabled, With, Check, Write and Sync make a zapcore.Core.
func (l *etcdLog) Enabled(level zapcore.Level) bool { return l.to != nil || level >= zapcore.WarnLevel }

func (l *etcdLog) With([]zapcore.Field) zapcore.Core { return l }

func (l *etcdLog) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if l.Enabled(e.Level) {
		return c.AddCore(e, l)
	}
	return c
}

func (l *etcdLog) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if e.Level >= zapcore.WarnLevel {
		text := e.Message
		if err := fieldError(fields); err != nil {
			text += ": " + err.Error()
		}
		l.mu.Lock()
		l.last = text
		l.mu.Unlock()
	}
	if l.to != nil {
		l.to.Log(context.Background(), slogLevel(e.Level), "etcd: "+e.Message, attrs(fields)...)
	}
	return nil
}

func (l *etcdLog) Sync() error { return nil }

func slogLevel(l zapcore.Level) slog.Level {
	switch {
	case l >= zapcore.ErrorLevel:
		return slog.LevelError
	case l == zapcore.WarnLevel:
		return slog.LevelWarn
	case l == zapcore.InfoLevel:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

func attrs(fields []zapcore.Field) []any {
	m := zapcore.NewMapObjectEncoder()
	var out []any
	for _, f := range fields {
		f.AddTo(m)
		if v, ok := m.Fields[f.Key]; ok {
			out = append(out, f.Key, v)
		}
	}
	return out
}

// fieldError is the error among a log entry's fields, or nil.
func fieldError(fields []zapcore.Field) error {
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			return err
		}
	}
	return nil
}

// entryError is a log entry that was the end.
type entryError struct {
	what string
	err  error
}

func (e entryError) Error() string {
	what := strings.TrimSpace(e.what)
	if e.err == nil {
		return what
	}
	return what + ": " + e.err.Error()
}

func (e entryError) Unwrap() error { return e.err }
