"""`aclgrad check`: what a server computes, compared with the definitions."""
