package warden

// self is this very program, even if its file was replaced by a newer one.
func self() (string, error) { return "/proc/self/exe", nil }
