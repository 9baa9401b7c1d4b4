"""The fixed-capacity store of past examples, and the policies that decide what it keeps."""
