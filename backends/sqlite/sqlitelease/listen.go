package sqlitelease

import (
	"os"
	"path/filepath"
	"time"
)

// listen makes the pipe. Without one (a file system that has none) the tick
// must do.
func (q *queue) listen() {
	dir := filepath.Dir(q.pipe)
	mode := os.FileMode(0o600)
	if st, err := os.Stat(q.a.path); err == nil {
		mode = st.Mode().Perm()
	}
	_ = os.Mkdir(dir, mode|(mode&0o444)>>2) // who may read the file may enter
	sweep(dir)
	f, err := makePipe(q.pipe, mode)
	if err != nil {
		return
	}
	q.wg.Go(func() {
		buf := make([]byte, 64)
		for {
			if _, err := f.Read(buf); err != nil {
				return
			}
			q.look()
		}
	})
	q.wg.Go(func() {
		<-q.a.close
		_ = f.Close()         // ends the reader
		_ = os.Remove(q.pipe) // a sweep may have been faster
	})
}

// sweep removes the pipes of processes that died. A young one may belong to a
// process that is about to open it.
func sweep(dir string) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range all {
		st, err := e.Info()
		if err != nil || st.Mode()&os.ModeNamedPipe == 0 || time.Since(st.ModTime()) < time.Minute {
			continue
		}
		if p := filepath.Join(dir, e.Name()); ring(p) {
			_ = os.Remove(p) // another may have been faster
		}
	}
}
