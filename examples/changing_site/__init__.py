"""A flow in the browser, on a site that changes every night."""
