package sqlcore

// Functions that differ in their address only: nine pools at once that are in
// use are rare, and the ninth is told by goroutines.
var trampolines = [...]func(fn func() error) error{via0, via1, via2, via3, via4, via5, via6, via7}

//go:noinline
func via0(fn func() error) error { err := fn(); return err }

//go:noinline
func via1(fn func() error) error { err := fn(); return err }

//go:noinline
func via2(fn func() error) error { err := fn(); return err }

//go:noinline
func via3(fn func() error) error { err := fn(); return err }

//go:noinline
func via4(fn func() error) error { err := fn(); return err }

//go:noinline
func via5(fn func() error) error { err := fn(); return err }

//go:noinline
func via6(fn func() error) error { err := fn(); return err }

//go:noinline
func via7(fn func() error) error { err := fn(); return err }
