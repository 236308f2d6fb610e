package sqlitelease

const childEnv = "SQLITELEASE_TEST_CHILD"

func child() int { return 0 }
