// Lets people in: asks for a name and password, or for a key, whichever the service knows, until somebody gets in.
import { useEffect, useState } from "preact/hooks";
import { call, get, session } from "./api";
import type { Schemas } from "./api-types";
import { attempt } from "./state";
import { Dialog, Field } from "./ui";
import { t } from "./words";

export function Login({ onEnter }: { onEnter: () => Promise<void> }) {
  const [hasAccounts, setAccounts] = useState<boolean | null>(null);
  const [attempts, setAttempts] = useState(0);
  useEffect(() => {
    void attempt(async () => {
      const status = await get<Schemas["AuthStatus"]>("auth-status", undefined, { place: false });
      setAccounts(status.auth_configured);
    });
  }, []);
  if (hasAccounts === null) return null;
  const logIn = (data: FormData) => attempt(async () => {
    try {
      if (hasAccounts) {
        const form = new URLSearchParams({ username: String(data.get("username")), password: String(data.get("password")), grant_type: "password" });
        session.token = (await call<Schemas["LoginReply"]>("POST", "login", { form, place: false })).access_token;
      } else session.key = String(data.get("key"));
      await onEnter();
    } finally {
      // Empty fields say that it has to be typed again.
      setAttempts((count) => count + 1);
    }
  });
  return (
    <Dialog key={attempts} title={t("login")} onClose={() => null} onSubmit={logIn} submit={t("login")} stays>
      <p class="quiet">{hasAccounts ? t("loginNeeded") : t("keyNeeded")}</p>
      {hasAccounts ? (
        <>
          <Field label={t("user")}><input name="username" autocomplete="username" required autofocus /></Field>
          <Field label={t("password")}><input name="password" type="password" autocomplete="current-password" required /></Field>
        </>
      ) : <Field label={t("key")}><input name="key" type="password" autocomplete="off" required autofocus /></Field>}
    </Dialog>
  );
}
