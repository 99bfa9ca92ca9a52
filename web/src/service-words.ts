// What the service says in English, in the language of the page: failures by their type, sentences that it says often.
// What is not known here is shown as the service said it.
import { language, t } from "./words";

/** By the last part of a problem's `type`, which is the class of the error in `errors.py`. */
const FAILURES: Record<string, string> = {
  SettingsError: "设置无效", MissingDependencyError: "服务器未安装所需的可选组件", InvalidRequestError: "请求无效", NotFoundError: "未找到",
  ConflictError: "与当前状态冲突", StaleChangesetError: "内容已被他人更改，请重试", IngestError: "无法收录该文档", CancelledIngestError: "处理已取消",
  AuthenticationError: "需要登录", AccessError: "没有权限", PermissionDenied: "没有权限", OverloadedError: "请求过多，请稍后再试", RequestTooLargeError: "请求过大",
  ServiceUnavailable: "服务暂不可用", ClusterUnavailable: "读取文档的集群不可用", StoreError: "存储出错", StoreUnavailable: "存储不可用",
  StoreAccessDenied: "存储拒绝访问", StoreDamaged: "存储已损坏", SchemaMismatch: "存储与此版本不符", ModelError: "模型出错", RateLimited: "模型暂时拒绝请求，请稍后再试",
  ModelTimeout: "模型未在规定时间内响应", BadModelReply: "模型的回复无法使用", ContextTooLong: "内容超出模型可读的长度", ModelUnavailable: "模型不可用",
};

const SENTENCES: [RegExp, string][] = [
  [/^no keywords were found in the question: .*$/, "问题中没有找到关键词，因此按整句检索"],
  [/^the low-level keywords are empty: .*$/, "没有名称关键词，因此未检索实体"],
  [/^the high-level keywords are empty: .*$/, "没有主题关键词，因此未检索关系"],
  [/^the chat model gave no usable keywords \((.*)\); .*$/s, "聊天模型未给出可用的关键词，已在本地提取（$1）"],
  [/^the chat model gave no usable understanding of the question \((.*)\); .*$/s, "聊天模型未能理解问题，已按规则理解（$1）"],
  [/^the reranker (.*) failed, so .*?: (.*)$/s, "重排序模型 $1 失败，段落保持检索顺序（$2）"],
  [/^the reranker (.*) ranked nothing, .*$/, "重排序模型 $1 未排序任何段落，段落保持检索顺序"],
  [/^the reranker (.*) scored every passage below (\S+), the best (\S+), .*$/, "重排序模型 $1 给所有段落的分数都低于 $2（最高 $3），因此未保留任何段落；请调低该阈值"],
  [/^no passage fits (\S+) .*$/s, "没有段落能放入预算 $1；请提高总预算，或降低实体与关系预算"],
  [/^no entity and no relation fits .*$/s, "没有实体或关系能放入预算；请提高预算"],
  [/^system_prompt has no \{user_prompt\}.*$/, "系统提示词中没有 {user_prompt}，因此未使用给模型的说明"],
  [/^(\d+|one|a) citations? of no document in the context left out$/, "已去掉 $1 处不属于所查文档的引用"],
  [/^(\d+|one|a) sentences? of the answer without a document that supports it$/, "回答中有 $1 句没有文档支持"],
  [/^.*no chat model is configured.*$/s, "未配置聊天模型"],
  [/^chunks are picked by weight: .*$/s, "段落按权重选取：有的分块没有向量，或可选的太少"],
  [/^Other work is under way; .*$/, "有其他任务正在进行；请等待或取消后重试"],
  // Why a document was not taken in, and, behind the semicolon, what to do.
  [/^(.*) is (?:an? )?(?:\S+ )?encrypted\b.*$/s, "$1 已加密；请移除密码后重试"],
  [/^(.*) is copy-protected; .*$/s, "$1 受版权保护；请提供未受保护的副本"],
  [/^(.*) is no PDF that can be read (\(.*\)); .*$/s, "$1 不是可读取的 PDF $2；请重新获取或另存"],
  [/^(.*) is no (?:Word document|spreadsheet|PowerPoint presentation|EPUB book|Rich Text|notebook)\b.*$/s, "$1 无法按其类型读取；请打开后另存"],
  [/^(.*) is a file of an older Office kind .*$/s, "$1 是旧版 Office 格式；请另存为新格式"],
  [/^(.*) is PostScript, .*$/s, "$1 是 PostScript 文件；请转换为 PDF"],
  [/^(.*) is an? (?:Word|PowerPoint) file of the older kind (\(.*\)); save it as (\S+)$/s, "$1 是旧版 Office 格式 $2；请另存为 $3"],
  [/^(.*) is an Outlook message (\(.*\)); .*$/s, "$1 是 Outlook 邮件 $2；请另存为 .eml"],
  [/^(.*) is a ZIP archive, not a document; .*$/s, "$1 是 ZIP 压缩包；请解压后上传其中的文件"],
  [/^(.*?) (?:is an archive or Office file that )?is cut off or broken (\(.*\)); .*$/s, "$1 不完整或已损坏 $2；请重新获取，或打开后另存"],
  [/^(.*) is an archive, not a document; .*$/s, "$1 是压缩包而非文档；请解压后提供其中的文件"],
  [/^(.*) (?:holds broken XML|defines XML entities)\b.*$/s, "$1 的 XML 有误；请重新获取，或打开后另存"],
  [/^(.*) holds (\S+) files, more than (\S+); .* raise (\S+)$/s, "$1 含 $2 个文件，超过上限 $3；若可信任，请提高 $4"],
  [/^(.*) unpacks to (\S+) bytes or more, beyond (\S+); .* raise (\S+)$/s, "$1 解压后有 $2 字节或更多，超过上限 $3；若可信任，请提高 $4"],
  [/^(.*) unpacks to (\S+) times its size or more, beyond (\S+), .* raise (\S+)$/s, "$1 解压后是原大小的 $2 倍或更多，超过上限 $3；若可信任，请提高 $4"],
  [/^(.*) has (\S+) pages without text, as scans have; install.*$/s, "$1 有 $2 页没有文本（可能是扫描件）；安装 heliograph[ocr] 即可识别"],
  [/^(.*) has (\S+) pages without text\b.*$/s, "$1 有 $2 页没有文本，也没有可识别的文字"],
  [/^no text was found in the picture (.*); give pictures of pages$/s, "图片 $1 中没有文字；请提供页面的图片"],
  [/^(.*) is no picture that can be read; .*$/s, "$1 不是可读取的图片；请重新获取或另存"],
  [/^(.*) has more than (\S+) pixels; .*$/s, "$1 超过上限 $2 像素；请缩小后保存"],
  [/^(.*) has (\S+) (?:pages|slides|sheets|chapters), more than (\S+); .*$/s, "$1 有 $2 页，超过上限 $3；请拆分，或提高 documents.max_pages"],
  [/^(.*) has (\S+) pages, and no page (\S+)$/s, "$1 只有 $2 页，没有第 $3 页"],
  [/^(.*) has at least (\S+) characters by (.*), more than (\S+); .* raise (\S+)$/s, "$1 到 $3 已有至少 $2 个字符，超过上限 $4；请拆分，或提高 $5"],
  [/^(.*) has (\S+) characters, more than (\S+); .* raise (\S+)$/s, "$1 有 $2 个字符，超过上限 $3；请拆分，或提高 $4"],
  [/^(.*) has (\S+) bytes, more than (\S+); (?:.* )?raise (\S+)$/s, "$1 有 $2 字节，超过上限 $3；请拆分，或提高 $4"],
  [/^(.*) has more than (\S+) bytes; (?:.* )?raise (\S+?)(?: to fetch it)?$/s, "$1 超过上限 $2 字节；请拆分，或提高 $3"],
  [/^the body has (\S+) bytes or more, and at most (\S+) are taken here; .* raise (\S+)$/s, "请求体有 $1 字节或更多，超过上限 $2；请减少一次发送的内容，或提高 $3"],
  [/^page (\S+) of (.*) (?:is broken|cannot be drawn) (\(.*\)); .*$/s, "$2 的第 $1 页无法读取 $3；请另存该文件"],
  [/^(.*) was not (?:read|fetched) within (\S+) s; .*$/s, "$1 未能在 $2 秒内读取；请重试、拆分，或提高时限"],
  [/^(.*) ended the process that was reading it (\(.*?\)); .*$/s, "$1 使读取进程中止 $2，可能已损坏或有害；请另存后重试"],
  [/^(.*) holds binary data, not text; .*$/s, "$1 是二进制数据，不是文本；请先转换为 UTF-8 文本"],
  [/^(.*) is in no encoding known here; .*$/s, "$1 的编码无法识别；请另存为 UTF-8"],
  [/^(.*) is a (.*) file, not text; .*$/s, "$1 是 $2 文件，不是文本；请先转换为 Markdown 或纯文本"],
  [/^(.*) is (?:not an e-mail message|a message whose parts are broken)\b.*$/s, "$1 不是完整的邮件；请重新另存为 .eml"],
  [/^(.*) is not a mailbox: .*$/s, "$1 不是邮箱文件；请重新导出为 .mbox"],
  [/^(?:line \S+ of )?(.*) (?:is not JSON|is JSON that cannot be read|nests too deeply)\b.*$/s, "$1 不是可读取的 JSON；请修正，或改名为 .txt 按文本读取"],
  [/^(.*) is not delimited text (\(.*\)); .*$/s, "$1 不是分隔文本 $2；请另存为 UTF-8 的 CSV"],
  [/^the document (.*) (?:is empty|holds nothing but separators); .*$/s, "文档 $1 没有文本；请提供文本"],
  [/^(.*) cannot be read (\(.*\)); .*$/s, "$1 无法读取 $2；请检查路径与权限"],
  [/^there is no file or folder (.*?)(?: \(.*\))?; .*$/s, "没有文件或文件夹 $1；请检查路径"],
  [/^the host (.*) leads to (.*), which is not a public address; .*$/s, "主机 $1 指向非公开地址 $2；请改为上传文件，或设置 documents.allow_private_addresses"],
  [/^the host (.*?) has no address\b.*$/s, "找不到主机 $1；请检查网址与网络"],
  [/^the address of (.*) holds a user name or password; .*$/s, "$1 的网址含有用户名或密码；请去掉"],
  [/^(.*) answered (\d\S*) (.*); .*$/s, "$1 返回 $2 $3；请检查网址"],
  [/^(.*) cannot be fetched (\(.*\)); .*$/s, "无法获取 $1 $2；请稍后重试"],
  [/^(.*?) (?:redirects|leads to an address that is no URL|is no URL)\b.*$/s, "$1 无法获取；请检查网址"],
  [/^(.*?) \S.* not an http or https address; .*$/s, "$1 不是 http 或 https 网址；请检查网址"],
  [/^(.*) is compressed as (.*), which .*$/s, "$1 的压缩方式 $2 不受支持；请下载后上传文件"],
  [/^the text of the document (.*) is not stored$/s, "文档 $1 的正文未保存；请重新上传"],
];

const isChinese = () => language.value === "zh";

/** A warning or a reason that the service gave as a sentence. */
export function serviceText(text: string): string {
  if (!isChinese()) return text;
  const found = SENTENCES.find(([pattern]) => pattern.test(text));
  return found ? text.replace(found[0], found[1]) : text;
}

const capital = (text: string) => text.slice(0, 1).toUpperCase() + text.slice(1);

/** What happened, and what a person can do about it, which the service says behind the last semicolon. */
export function reasonAndAdvice(error: string): [string, string] {
  const text = serviceText(error);
  const [, reason, todo] = /^(.*)[;；]\s*(.*)$/s.exec(text) ?? [];
  return reason && todo ? [capital(reason), `${capital(todo)}${isChinese() ? "。" : "."}`] : [capital(text), t("do_retry")];
}

/** A failure with its reason; the reason stays, since it says what exactly it was about. */
export function failureText(type: string, detail: string): string {
  const name = type.slice(type.lastIndexOf(":") + 1);
  const word = isChinese() ? FAILURES[name] : undefined;
  return word ? `${word}：${serviceText(detail)}` : serviceText(detail);
}
