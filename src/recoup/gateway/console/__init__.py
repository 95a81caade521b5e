"""Pages for people, made on the server. They look; whatever they change goes through the HTTP API like everybody's."""
