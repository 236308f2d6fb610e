package report

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"time"
)

// Messages as JSON, one object a line, with the fields of package slog: time,
// level, msg, then pid, and of an error what it means for the data, what to do,
// and the exit code.

func jsonLine(text string) string { return record(slog.LevelInfo, strings.TrimRight(text, "\n")) }

func jsonError(err error) string {
	text := strings.TrimPrefix(err.Error(), "stint: ")
	pr, ok := errors.AsType[*Problem](err)
	if !ok {
		return record(slog.LevelError, text, slog.Int("exit_code", ExitUsage))
	}
	var more []slog.Attr
	if pr.Data != "" {
		more = append(more, slog.String("data", pr.Data))
	}
	if pr.Do != "" {
		more = append(more, slog.String("do", pr.Do))
	}
	return record(slog.LevelError, text, append(more, slog.Int("exit_code", pr.Code))...)
}

func record(level slog.Level, text string, more ...slog.Attr) string {
	var b bytes.Buffer
	r := slog.NewRecord(time.Now(), level, text, 0)
	r.AddAttrs(slog.Int("pid", os.Getpid()))
	r.AddAttrs(more...)
	_ = slog.NewJSONHandler(&b, nil).Handle(context.Background(), r) // a buffer takes everything
	return b.String()
}
